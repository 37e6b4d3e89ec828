#include "memplan/problem_text.h"

#include <gtest/gtest.h>

#include "memplan/random_problem.h"

namespace cellbatch {
namespace {

std::string Error(std::string_view text) {
  return std::string(ParseProblem(text).status().message());
}

TEST(ProblemTextTest, ReadsEveryKindOfLine) {
  const auto problem = ParseProblem(
      "# a comment\nbroadcasts stride\nconstant W 64\ninput x 8 # another\n\nvalue a' 8\r\noutput "
      "b.1 8\n"
      "fixed x\nbatch add (a' b.1) = (x x)(x x)\nfixed W");
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->broadcasts, Broadcasts::kByStride);
  ASSERT_EQ(problem->variables.size(), 4u);
  EXPECT_EQ(problem->variables[3], (Variable{"b.1", VariableKind::kOutput, 8}));
  EXPECT_EQ(problem->fixed, (std::vector<std::vector<VariableId>>{{1}, {0}}));
  EXPECT_EQ(problem->batches, (std::vector<OperandBatch>{{"add", {{2, 3}, {1, 1}, {1, 1}}}}));
  EXPECT_TRUE(ParseProblem("").ok());
}

TEST(ProblemTextTest, EveryErrorNamesItsLine) {
  const std::string head = "input x 8\nvalue a 8\nvalue b 16\n";
  EXPECT_EQ(Error("\n\ntensor x 8"),
            "line 3: \"tensor\" begins no line; there are constant, input, value, output, fixed, "
            "broadcasts, batch and op");
  EXPECT_EQ(Error("input x"), "line 1: a variable is: input NAME BYTES");
  EXPECT_EQ(Error("input x many"), "line 1: variable x has \"many\" bytes, which is no number");
  EXPECT_EQ(Error("input x 8x"), "line 1: variable x has \"8x\" bytes, which is no number");
  EXPECT_EQ(Error("input x 99999999999999999999"),
            "line 1: variable x has \"99999999999999999999\" bytes, which is no number");
  EXPECT_EQ(Error("input x 0"), "line 1: variable x has 0 bytes, it must have 1 to 1099511627776");
  EXPECT_EQ(Error("input x% 8"),
            "line 1: \"x%\" is no name: up to 64 letters, digits, _ . ' and -");
  EXPECT_EQ(Error("input " + std::string(kMaxNameBytes, 'x') + " 8"), "");
  EXPECT_EQ(Error("input " + std::string(kMaxNameBytes + 1, 'x') + " 8"),
            "line 1: \"" + std::string(kMaxNameBytes, 'x') +
                "...\" is no name: up to 64 letters, digits, _ . ' and -");
  EXPECT_EQ(Error(head + "value x 8"), "line 4: a second variable x");
  EXPECT_EQ(Error(head + "op f a = y"), "line 4: no variable \"y\" stands above");
  for (const char* op : {"op f", "op f a x", "op f a ="}) {
    EXPECT_EQ(Error(head + op), "line 4: an operator is: op NAME RESULT = SOURCE ...") << op;
  }
  EXPECT_EQ(Error(head + "op f x = a"), "line 4: batch f writes x, which is an input");
  EXPECT_EQ(Error(head + "op f a = x\nop g a = x"), "line 5: batch g writes a a second time");
  for (const char* batch :
       {"batch f (a b = (x x)", "batch f (a) (x)", "batch f (a) = = (x)", "batch f (a) = (x",
        "batch f (a) = (x))", "batch f (a) = x (x)", "batch f (a) = ((x))", "batch f = (a) (x)"}) {
    EXPECT_EQ(Error(head + batch), "line 4: a batch is: batch NAME (RESULT ...) = (SOURCE ...) ...")
        << batch;
  }
  EXPECT_EQ(Error(head + "batch f (a b) = (x x)"),
            "line 4: batch f: operand 0 mixes sizes: a has 8 bytes, b has 16");
  EXPECT_EQ(Error(head + "batch f (a) = (x x)"),
            "line 4: batch f: operand 1 has 2 variables, the result has 1");
  EXPECT_EQ(Error(head + "batch f () = ()"), "line 4: batch f has no operators");
  EXPECT_EQ(Error(head + "fixed x a x"), "line 4: variable x is fixed twice");
  EXPECT_EQ(Error(head + "fixed"), "line 4: a fixed run is: fixed NAME ...");
  EXPECT_EQ(Error("broadcasts loud"),
            "line 1: broadcasts are: broadcasts stride, or: broadcasts copied");
  EXPECT_EQ(Error(std::string(kMaxTextBytes + 1, ' ')),
            "16777217 bytes of text, the limit is 16777216");
}

TEST(ProblemTextTest, WhatIsPrintedIsReadBack) {
  RandomProblem random(7);
  for (int round = 0; round < 500; ++round) {
    const LayoutProblem problem = random.Make({.num_variables = 3 + random.Below(20)});
    const auto again = ParseProblem(PrintProblem(problem));
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << PrintProblem(problem);
    ASSERT_EQ(*again, problem);
  }
}

}  // namespace
}  // namespace cellbatch
