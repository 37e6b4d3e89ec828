#include "cells/weights/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cellbatch {
namespace {

using testing::HasSubstr;
using Dims = std::vector<int64_t>;

class WeightStoreTest : public testing::Test {
 protected:
  WeightStoreTest() {
    const std::string path = testing::TempDir() + "/store.safetensors";
    bad_[3] = std::numeric_limits<float>::quiet_NaN();
    inf_[1] = -std::numeric_limits<float>::infinity();
    EXPECT_TRUE(WriteSafetensors(path, {{"w", {2, 3}, w_},
                                        {"v", {2, 3}, v_},
                                        {"w|v", {2, 3}, other_},
                                        {"bad", {2, 3}, bad_},
                                        {"inf", {6}, inf_},
                                        {"cube", {1, 2, 3}, w_},
                                        {"one", {}, absl::MakeConstSpan(w_).first(1)},
                                        {"none", {0, 3}, {}}})
                    .ok());
    auto store = WeightStore::Open(path, 1 << 20);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = std::make_unique<WeightStore>(*std::move(store));
  }

  std::vector<float> Values(const std::vector<std::string>& names, bool transposed = false) {
    const auto weight = store_->Get(names, transposed);
    if (!weight.ok()) {
      ADD_FAILURE() << weight.status();
      return {};
    }
    return {weight->data.get(), weight->data.get() + weight->shape.size()};
  }
  std::string ErrorOf(const std::vector<std::string>& names, bool transposed = false) {
    const auto weight = store_->Get(names, transposed);
    return weight.ok() ? "accepted" : std::string(weight.status().message());
  }

  std::vector<float> w_ = {1, 2, 3, 4, 5, 6}, v_ = {10, 20, 30, 40, 50, 60}, bad_ = w_, inf_ = w_,
                     other_ = {7, 7, 7, 7, 7, 7};
  std::unique_ptr<WeightStore> store_;
};

TEST_F(WeightStoreTest, TensorsAreAddedAndTurned) {
  EXPECT_EQ(Values({"w"}), w_);
  EXPECT_EQ(Values({"w", "v"}), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_EQ(Values({"w"}, true), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(*store_->ShapeOf({"w"}, false), (Dims{2, 3}));
  EXPECT_EQ(*store_->ShapeOf({"w"}, true), (Dims{3, 2}));
  EXPECT_EQ(store_->Get({"w"}, true)->shape, Shape::Matrix(3, 2));
}

TEST_F(WeightStoreTest, WhatTwoTypesNameIsReadOnce) {
  EXPECT_EQ(store_->Get({"w"}, false)->data, store_->Get({"w"}, false)->data);
  EXPECT_NE(store_->Get({"w"}, false)->data, store_->Get({"w"}, true)->data);
}

TEST_F(WeightStoreTest, ATensorWhoseNameReadsLikeTwoOthersIsNotTakenForTheirSum) {
  EXPECT_EQ(Values({"w", "v"}), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_EQ(Values({"w|v"}), other_);
  EXPECT_EQ(Values({"w|v"}, true), other_);
  EXPECT_EQ(Values({"w", "v"}, true), (std::vector<float>{11, 44, 22, 55, 33, 66}));
}

TEST_F(WeightStoreTest, ValuesThatAreNotFiniteAreNamedWithTheirPlace) {
  EXPECT_THAT(ErrorOf({"bad"}), HasSubstr("tensor \"bad\" holds nan at element 3"));
  EXPECT_THAT(ErrorOf({"inf"}), HasSubstr("tensor \"inf\" holds -inf at element 1"));
}

TEST_F(WeightStoreTest, TensorsThatAreNoWeightsAreNamed) {
  EXPECT_THAT(ErrorOf({"nothing"}), HasSubstr("tensor \"nothing\" is not in the file"));
  EXPECT_THAT(ErrorOf({"cube"}), HasSubstr("[1, 2, 3], weights have one or two dimensions"));
  EXPECT_THAT(ErrorOf({"one"}), HasSubstr("[], weights have"));
  EXPECT_THAT(ErrorOf({"none"}), HasSubstr("[0, 3], of which 1 to"));
  EXPECT_THAT(ErrorOf({"w", "inf"}),
              HasSubstr("\"inf\" is [6], \"w\", to which it is added, is [2, 3]"));
  EXPECT_THAT(ErrorOf({"inf"}, true), HasSubstr("is a vector, to be transposed"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("no tensor is named"));
}

TEST_F(WeightStoreTest, AParameterWithoutATensorIsZero) {
  const Weight zero = ZeroWeight(Shape::Vector(3));
  EXPECT_EQ(zero.shape, Shape::Vector(3));
  EXPECT_EQ(std::vector<float>(zero.data.get(), zero.data.get() + 3), std::vector<float>(3, 0.0f));
}

}  // namespace
}  // namespace cellbatch
