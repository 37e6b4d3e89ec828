// Translations through loader, scheduler and CPU device: against the equations in double, and with the
// counter model, whose answers are known though its lengths are not.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>

#include "cells/unfold/encoder_decoder_unfolder.h"
#include "gtest/gtest.h"
#include "tests/e2e/small_models.h"
#include "tests/golden/served.h"
#include "tests/seq2seq/translators.h"

namespace cellbatch {
namespace {

using golden::Served;

struct Translation {
  std::vector<int32_t> words;
  int32_t length = -1, stopped = -1;
};

struct Asked {
  std::vector<int32_t> source;
  std::vector<RequestParameter> parameters = {};
};

class Seq2SeqTest : public ::testing::Test {
 protected:
  // All at once, answers by position.
  std::vector<Translation> Translate(const std::shared_ptr<const Model>& model,
                                     const std::vector<Asked>& asked, int depth = 0) {
    auto served = Served::Start(1, depth);
    EXPECT_TRUE(served.ok()) << served.status();
    EXPECT_TRUE((*served)->Add(model).ok());
    std::vector<CellGraph> graphs(asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      RequestInput input;
      input.tensors.push_back(
          {kSourceInput,
           WireType::kInt32,
           {static_cast<int64_t>(asked[i].source.size())},
           absl::MakeConstSpan(reinterpret_cast<const std::byte*>(asked[i].source.data()),
                               asked[i].source.size() * 4)});
      input.outputs = {"LENGTH", "OUTPUT", "STOPPED"};
      input.parameters = asked[i].parameters;
      absl::Status s = model->unfolder->Unfold(input, graphs[i]);
      if (s.ok()) s = graphs[i].Seal(*model, (*served)->scheduler().max_tasks_in_flight());
      EXPECT_TRUE(s.ok()) << s;
    }
    std::vector<Translation> translations;
    for (const auto& request : (*served)->Answer(model, std::move(graphs))) {
      EXPECT_TRUE(request->status.ok()) << request->status;
      request->graph.CloseAnswer();
      translations.push_back(Read(request->graph));
    }
    return translations;
  }

  static Translation Read(const CellGraph& graph) {
    Translation t;
    const auto values = [&](size_t i) {
      std::vector<int32_t> v(graph.tensors()[i].bytes.size() / 4);
      if (!v.empty()) std::memcpy(v.data(), graph.tensors()[i].bytes.data(), v.size() * 4);
      return v;
    };
    t.length = values(0)[0];
    t.words = values(1);
    t.stopped = values(2)[0];
    EXPECT_EQ(t.length, static_cast<int32_t>(t.words.size()));
    return t;
  }

  const std::string repository_ = NewRepository();
};

// Teacher words: the equations are given the words that were served, so that one narrow choice does not
// spoil what follows it; each word must be the best, but where two are as good within the bound.
TEST_F(Seq2SeqTest, EveryWordIsTheBestOfTheEquationsGivenTheWordsBefore) {
  std::mt19937 random(5);
  for (const int32_t layers : {1, 2}) {
    RandomTranslator spec{.name = "translator" + std::to_string(layers), .layers = layers};
    spec.seed = static_cast<uint64_t>(layers);
    AddRandomTranslator(repository_, spec);
    const auto model = LoadTranslator(repository_, spec.name);
    std::vector<Asked> asked(30);
    for (size_t i = 0; i < asked.size(); ++i) {
      asked[i].source.resize(1 + random() % 25);
      for (int32_t& word : asked[i].source) {
        word = static_cast<int32_t>(random() % static_cast<uint32_t>(spec.source_words));
      }
      if (i % 2 == 0) asked[i].parameters = {{kDecodeSteps, 1 + static_cast<int64_t>(i)}};
    }
    const std::vector<Translation> translations = Translate(model, asked);
    int words = 0, clear = 0, kinds = 0;
    std::vector<bool> said(static_cast<size_t>(spec.target_words));
    for (size_t i = 0; i < asked.size(); ++i) {
      TranslatorReference reference(spec, asked[i].source);
      std::vector<int32_t> all = translations[i].words;
      if (translations[i].stopped == 1) all.push_back(spec.end_of_sequence);
      int32_t before = spec.first_word;
      for (const int32_t word : all) {
        const std::vector<double> scores = reference.Scores(before);
        std::vector<double> sorted = scores;
        std::sort(sorted.rbegin(), sorted.rend());
        ASSERT_GE(scores[static_cast<size_t>(word)], sorted[0] - 1e-5 * (1 + std::abs(sorted[0])))
            << "request " << i << ", word " << words;
        clear += sorted[0] - sorted[1] > 1e-3 ? 1 : 0;
        kinds += said[static_cast<size_t>(word)] ? 0 : 1;
        said[static_cast<size_t>(word)] = true;
        before = word;
        ++words;
      }
      if (!asked[i].parameters.empty()) {
        EXPECT_EQ(translations[i].length, asked[i].parameters[0].value);
      } else if (translations[i].stopped == 0) {
        EXPECT_EQ(translations[i].length, spec.max_decode_steps) << "neither stop nor cap";
      }
    }
    EXPECT_GT(clear, words * 9 / 10) << "most choices should be no matter of rounding";
    EXPECT_GT(kinds, 5) << "a decoder that says one word shows little";
  }
}

TEST_F(Seq2SeqTest, TheCounterStopsExactlyAtItsEndForEveryLength) {
  const CounterModel spec{.largest = 100, .max_decode_steps = 110};
  AddCounterModel(repository_, spec);
  const auto model = LoadTranslator(repository_, spec.name);
  std::mt19937 random(7);
  for (const int depth : {1, 2, 5}) {
    std::vector<Asked> asked;
    for (int32_t n = 0; n <= spec.largest; ++n) {
      Asked& a = asked.emplace_back();
      a.source.resize(random() % 20);
      for (int32_t& word : a.source) word = static_cast<int32_t>(random() % 101);
      a.source.push_back(n);
    }
    std::shuffle(asked.begin(), asked.end(), random);
    const std::vector<Translation> translations = Translate(model, asked, depth);
    for (size_t i = 0; i < asked.size(); ++i) {
      std::vector<int32_t> expected;
      for (int32_t n = asked[i].source.back(); n > 0; --n) expected.push_back(n);
      EXPECT_EQ(translations[i].words, expected);
      EXPECT_EQ(translations[i].stopped, 1);
    }
  }
}

TEST_F(Seq2SeqTest, ACapBeforeTheEndIsHonouredAndFlagged) {
  AddCounterModel(repository_, {.largest = 20, .max_decode_steps = 12});
  const auto model = LoadTranslator(repository_, "counter");
  const std::vector<Translation> t = Translate(model,
                                               {{{20}},
                                                {{12}},
                                                {{11}},
                                                {{20}, {{kMaxDecodeSteps, 3}}},
                                                {{2}, {{kMaxDecodeSteps, 3}}},
                                                {{3}, {{kMaxDecodeSteps, 3}}},
                                                {{1}, {{kDecodeSteps, 4}}}},
                                               2);
  const auto expect = [&](size_t i, std::vector<int32_t> words, int32_t stopped) {
    EXPECT_EQ(t[i].words, words) << i;
    EXPECT_EQ(t[i].stopped, stopped) << i;
  };
  expect(0, {20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9}, 0);
  expect(1, {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0);  // the end would have been the next
  expect(2, {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 1);
  expect(3, {20, 19, 18}, 0);
  expect(4, {2, 1}, 1);
  expect(5, {3, 2, 1}, 0);
  ASSERT_EQ(t[6].words.size(), 4u) << "the end of the sequence does not stop it";
  EXPECT_EQ(t[6].words[0], 1);
  EXPECT_EQ(t[6].words[1], 0);
  EXPECT_EQ(t[6].stopped, 0);
}

// Words in the targets of IWSLT'15, or (said aloud) as many drawn to the same statistics.
std::vector<int32_t> TargetLengths() {
  const char* named = std::getenv("CELLBATCH_DATA");
  const std::string folder = named != nullptr && *named != '\0' ? named : "../shared/data";
  std::ifstream file(folder + "/iwslt15_lengths_tst2013.txt");
  std::vector<int32_t> lengths;
  for (int32_t source = 0, target = 0; file >> source >> target;) lengths.push_back(target);
  if (!lengths.empty()) return lengths;
  std::cout << "the data folder is not here: lengths are drawn\n";
  std::mt19937 random(1);
  std::lognormal_distribution<double> draw(std::log(23.0), 0.6);
  for (int i = 0; i < 1000; ++i) {
    lengths.push_back(std::clamp(static_cast<int32_t>(draw(random)), 1, 123));
  }
  return lengths;
}

TEST_F(Seq2SeqTest, WhatRunsPastTheEndIsCountedAndLittle) {
  constexpr int kDepth = 2;
  constexpr double kMostOverrun = 0.04;  // of all decoder steps, over lengths as they are
  AddCounterModel(repository_, {.largest = 130, .max_decode_steps = 131});
  const auto model = LoadTranslator(repository_, "counter");
  auto served = Served::Start(1, kDepth);
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_TRUE((*served)->Add(model).ok());
  const std::vector<int32_t> lengths = TargetLengths();
  std::vector<CellGraph> graphs(lengths.size());
  int64_t words = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    RequestInput input;
    input.tensors.push_back(
        {kSourceInput,
         WireType::kInt32,
         {1},
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&lengths[i]), 4)});
    ASSERT_TRUE(model->unfolder->Unfold(input, graphs[i]).ok());
    ASSERT_TRUE(graphs[i].Seal(*model, kDepth).ok());
    words += lengths[i];
  }
  int64_t overrun = 0;
  for (const auto& request : (*served)->Answer(model, std::move(graphs))) {
    ASSERT_TRUE(request->status.ok()) << request->status;
    EXPECT_LE(request->overrun_nodes, kDepth - 1);
    overrun += request->overrun_nodes;
  }
  const auto lanes = (*served)->scheduler().stats().Lanes();
  ASSERT_EQ(lanes.size(), 1u);
  uint64_t steps = 0, past = 0;
  for (const CellTypeStats& type : lanes[0].types) {
    steps += type.stop_steps;
    past += type.overrun;
  }
  const auto requests = static_cast<int64_t>(lengths.size());
  EXPECT_EQ(past, static_cast<uint64_t>(overrun));
  EXPECT_EQ(steps, static_cast<uint64_t>(words + requests + overrun))
      << "each word, its end, and what ran on";
  EXPECT_GT(overrun, 0) << "a host that is always in time shows nothing";
  EXPECT_LE(static_cast<double>(past), kMostOverrun * static_cast<double>(steps));
  std::cout << requests << " requests, " << steps << " decoder steps, " << past
            << " past the end\n";
}

}  // namespace
}  // namespace cellbatch
