// Users' own unfolders, compiled as a user would: the example against its definition, and libraries that
// misbehave in every way that can be told. All in one process: that it is still there is half the claim.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/unfolder.h"
#include "server/repository/model_loader.h"
#include "tests/graphs/bad_unfolder.h"
#include "tests/graphs/outside.h"
#include "tests/graphs/words_input.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class UnfolderLibraryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prefix_ = InstallHeaders();
    folder_ = prefix_ + "/model";
    dilated_ = new DilatedModel(prefix_, folder_);
    std::ifstream in(folder_ + "/config.textproto");
    config_.assign(std::istreambuf_iterator<char>(in), {});
    CompileLibrary(prefix_, "bad.cc", kBadUnfolder, folder_ + "/bad.so");
  }
  static void TearDownTestSuite() { delete dilated_; }

  static absl::StatusOr<std::shared_ptr<const Model>> Load(LoaderLimits limits = {
                                                               .unfolder_libraries = true}) {
    return LoadModel(folder_, "model", 1, ModelId(0), limits);
  }
  // The example's model with another library.
  static absl::StatusOr<std::shared_ptr<const Model>> LoadWith(const std::string& file,
                                                               const std::string& config = "",
                                                               const std::string& extra = "") {
    std::string text = config_;
    text.replace(text.find("dilated.so"), 10, file);
    text.replace(text.find("1 2 4"), 5, config);
    std::ofstream(folder_ + "/config.textproto") << text << extra;
    const auto model = Load();
    std::ofstream(folder_ + "/config.textproto") << config_;
    return model;
  }
  static std::string LoadError(const std::string& file, const std::string& config = "") {
    const auto model = LoadWith(file, config);
    EXPECT_FALSE(model.ok());
    return std::string(model.status().message());
  }
  static std::string TableError(const std::string& code) {
    CompileLibrary(prefix_, "table.c", "#include <cellbatch_unfolder.h>\n" + code,
                   folder_ + "/table.so");
    return LoadError("table.so");
  }

  static std::string prefix_, folder_, config_;
  static DilatedModel* dilated_;
};
std::string UnfolderLibraryTest::prefix_, UnfolderLibraryTest::folder_,
    UnfolderLibraryTest::config_;
DilatedModel* UnfolderLibraryTest::dilated_ = nullptr;

TEST_F(UnfolderLibraryTest, TheExampleIsWhatItsDefinitionSays) {
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  for (const size_t length : {1, 2, 3, 9, 40}) {
    std::vector<int32_t> tokens;
    for (size_t t = 0; t < length; ++t) tokens.push_back(static_cast<int32_t>(t * t * 7 % 50));
    CellGraph graph;
    ASSERT_EQ((*model)->unfolder->Unfold(Words(tokens, {"ALL_HIDDEN", "OUTPUT"}), graph),
              absl::OkStatus());
    ASSERT_EQ(graph.Seal(**model, 2), absl::OkStatus());
    const auto answers = InterpretGraph(**model, graph);
    const DilatedModel::Answers expected = dilated_->Reference(tokens);
    ASSERT_EQ(answers.size(), 2u);  // in the order in which the library added them
    EXPECT_THAT(answers[0], Pointwise(DoubleNear(1e-9), expected.y));
    EXPECT_THAT(answers[1], Pointwise(DoubleNear(1e-9), expected.h));
    // What is not asked for is not there.
    CellGraph silent;
    ASSERT_EQ((*model)->unfolder->Unfold(Words(tokens), silent), absl::OkStatus());
    ASSERT_EQ(silent.Seal(**model, 2), absl::OkStatus());
    EXPECT_EQ(silent.tensors().size(), 1u);
  }
}

TEST_F(UnfolderLibraryTest, WordsBeyondTheVocabularyAreRefusedOrReplaced) {
  const auto unfold = [](const Model& model, const std::vector<int32_t>& tokens) {
    CellGraph graph;
    return model.unfolder->Unfold(Words(tokens), graph);
  };
  const auto strict = Load();
  ASSERT_TRUE(strict.ok()) << strict.status();
  const absl::Status refused = unfold(**strict, {1, 50});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("layer0.token: value 1 is 50, the vocabulary ends at 49"));
  const auto lenient =
      LoadWith("dilated.so", "1 2 4",
               "vocabulary { size: 40 out_of_vocabulary: UNKNOWN_WORD unknown_id: 3 }");
  ASSERT_TRUE(lenient.ok()) << lenient.status();
  EXPECT_EQ(unfold(**lenient, {1, 45, -1}), absl::OkStatus());
}

TEST_F(UnfolderLibraryTest, WhatCannotBeLoadedSaysWhy) {
  EXPECT_THAT(LoadError("none.so"), HasSubstr("unfolder library \"none.so\": No such file"));
  for (const char* outside : {"../model/dilated.so", "/tmp/x.so", "", ".", ".."}) {
    EXPECT_THAT(LoadError(outside),
                HasSubstr("expected is the name of a file in the model's folder"));
  }
  fs::create_symlink(prefix_ + "/include/cellbatch_unfolder.h", folder_ + "/link.so");
  EXPECT_THAT(LoadError("link.so"), HasSubstr("\"link.so\": leads out of the model's folder"));
  EXPECT_THAT(LoadError("1"), HasSubstr("\"1\": is no file"));
  EXPECT_THAT(LoadError("config.textproto"), HasSubstr("\"config.textproto\": "));
  std::ofstream(folder_ + "/empty.so") << "";
  EXPECT_THAT(LoadError("empty.so"), HasSubstr("\"empty.so\": empty.so: file too short"));
  LoaderLimits limits = {.unfolder_libraries = true};
  limits.max_library_bytes = 1000;
  EXPECT_THAT(std::string(Load(limits).status().message()), HasSubstr("bytes, the limit is 1000"));
  EXPECT_THAT(std::string(Load(LoaderLimits()).status().message()),
              HasSubstr("runs only where it is asked for (--unfolder-libraries)"));
}

// The loader would touch what is no longer there.
TEST_F(UnfolderLibraryTest, ALibraryThatWasCutIsAnErrorWhereverItWasCut) {
  const auto whole = fs::file_size(folder_ + "/dilated.so");
  int refused = 0;
  for (uintmax_t bytes = 1; bytes < whole; bytes += 1 + whole / 61) {
    fs::copy_file(folder_ + "/dilated.so", folder_ + "/cut.so",
                  fs::copy_options::overwrite_existing);
    fs::resize_file(folder_ + "/cut.so", bytes);
    const auto model = LoadWith("cut.so", "1 2 4");
    if (model.ok()) continue;  // cut behind its segments, where debuggers alone read
    ++refused;
    EXPECT_THAT(
        std::string(model.status().message()),
        AllOf(HasSubstr("unfolder library \"cut.so\": "),
              AnyOf(HasSubstr(fmt::format("is cut: {} bytes", bytes)), HasSubstr("too short"))));
  }
  EXPECT_GT(refused, 10);
}

TEST_F(UnfolderLibraryTest, TablesThatAreNotOfThisVersionSayWhy) {
  EXPECT_THAT(TableError("int other(void);\nint other(void) { return 0; }\n"),
              HasSubstr("has no function cellbatch_unfolder"));
  EXPECT_THAT(TableError("const CellbatchUnfolder* cellbatch_unfolder(void) { return NULL; }\n"),
              HasSubstr("cellbatch_unfolder() answers null"));
  const auto table = [](const std::string& fields) {
    return TableError(
        "static void* Create(const CellbatchHost* h, CellbatchModel* m, const char* c) "
        "{ (void)h; (void)m; (void)c; return NULL; }\n"
        "static int32_t Unfold(const void* s, const CellbatchHost* h, CellbatchBuilder* b) "
        "{ (void)s; (void)h; (void)b; return 0; }\n"
        "static void Destroy(void* s) { (void)s; }\n"
        "const CellbatchUnfolder* cellbatch_unfolder(void) {\n"
        "  static const CellbatchUnfolder kTable = {" +
        fields + "};\n  (void)Create; (void)Unfold; (void)Destroy;\n  return &kTable;\n}\n");
  };
  EXPECT_THAT(table("sizeof(CellbatchUnfolder), 2, Create, Unfold, Destroy, NULL"),
              HasSubstr("its table is of version 2, this server's is 1"));
  EXPECT_THAT(table("8, 1, Create, Unfold, Destroy, NULL"), HasSubstr("its table has 8 bytes"));
  EXPECT_THAT(table("sizeof(CellbatchUnfolder), 1, Create, NULL, Destroy, NULL"),
              HasSubstr("lacks create, unfold or destroy"));
  EXPECT_THAT(table("sizeof(CellbatchUnfolder), 1, Create, Unfold, Destroy, NULL"),
              HasSubstr("create answers null and does not say why"));
}

TEST_F(UnfolderLibraryTest, WhatCreateGetsWrongIsALoadError) {
  EXPECT_THAT(LoadError("dilated.so", ""), HasSubstr("config: no dilations"));
  EXPECT_THAT(LoadError("dilated.so", "1 0"), HasSubstr("exception: a dilation is below 1"));
  EXPECT_THAT(LoadError("dilated.so", "1 2"), HasSubstr("no column \"y\""));
  EXPECT_THAT(LoadError("bad.so", "throws"), HasSubstr("bad.so: create threw out of create"));
  EXPECT_THAT(LoadError("bad.so", "silent"), HasSubstr("declares no output"));
  EXPECT_THAT(LoadError("bad.so", "twice"), HasSubstr("declares a tensor \"A\" a second time"));
  EXPECT_THAT(LoadError("bad.so", "dims"), HasSubstr("with dimension 0 of 0"));
  EXPECT_THAT(LoadError("bad.so", "type"), HasSubstr("of type 7 and 1 dimensions"));
  EXPECT_THAT(LoadError("bad.so", "many"), HasSubstr("declares more than 64 tensors"));
}

TEST_F(UnfolderLibraryTest, WhatUnfoldGetsWrongEndsThatRequestAlone) {
  const auto model = LoadWith("bad.so", "", "max_nodes: 1000");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto good = [&] {
    CellGraph graph;
    EXPECT_EQ((*model)->unfolder->Unfold(Words({kGood}), graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(**model, 2), absl::OkStatus());
    return InterpretGraph(**model, graph);
  };
  const auto first = good();
  for (const BadRequest& bad : kBadRequests) {
    SCOPED_TRACE(bad.text);
    CellGraph graph;
    const absl::Status status = (*model)->unfolder->Unfold(Words({bad.mode}), graph);
    EXPECT_EQ(status.code(),
              bad.its_own_fault ? absl::StatusCode::kInternal : absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text));
    EXPECT_EQ(good(), first);
  }
}

TEST_F(UnfolderLibraryTest, AFileReplacedInPlaceIsReadAnewAndHarmsNobody) {
  const fs::path file = folder_ + "/changing.so";
  fs::copy_file(folder_ + "/dilated.so", file);
  const auto before = LoadWith("changing.so", "1 2 4");
  ASSERT_TRUE(before.ok()) << before.status();
  // The same inode, other bytes.
  std::ofstream(file, std::ios::trunc) << std::ifstream(folder_ + "/bad.so").rdbuf();
  EXPECT_THAT(LoadError("changing.so", "throws"), HasSubstr("threw out of create"));
  CellGraph graph;
  EXPECT_EQ((*before)->unfolder->Unfold(Words({1, 2, 3}), graph), absl::OkStatus());
}

}  // namespace
}  // namespace cellbatch
