#include "memplan/draw.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "memplan/planner.h"
#include "memplan/problem_text.h"

namespace cellbatch {
namespace {

constexpr char kProblem[] =
    "value a 8\nvalue b 8\nvalue c 8\nvalue d 8\nvalue lone 8\ninput x 8\nfixed x\n"
    "batch add (c d) = (b a) (x x)\nop tail lone = c\n";

TEST(DrawTest, TextShowsWhichOperatorReadsAndWritesWhere) {
  const LayoutProblem problem = *ParseProblem(kProblem);
  PlanTrace trace;
  const MemoryLayout layout = *Plan(problem, {}, &trace);
  EXPECT_EQ(DrawText(problem, layout),
            "memory           b  a  c  d |x\n"
            "add    result    .  .  1  2  .\n"
            "       source 1  1  2  .  .  .\n"
            "       source 2  .  .  .  .  1,2  gathered, 16 bytes\n");
  EXPECT_EQ(DrawTree(problem, *trace.adjacent), "((b a) (c d) lone x)");
}

TEST(DrawTest, SvgIsOneImageWithEveryVariableThatABatchNames) {
  const LayoutProblem problem = *ParseProblem(kProblem);
  PlanTrace trace;
  const MemoryLayout layout = *Plan(problem, {}, &trace);
  const std::string svg = DrawSvg(problem, layout, &trace);
  EXPECT_EQ(svg.substr(0, 5), "<svg ");
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  for (const char* name : {">a<", ">b<", ">c<", ">d<", ">x<", ">add<"})
    EXPECT_NE(svg.find(name), svg.npos) << name;
  EXPECT_EQ(svg.find(">lone<"), svg.npos);
}

// The program's answer and exit status.
std::pair<std::string, int> Memplan(const std::string& arguments) {
  FILE* pipe = popen(("memplan/memplan_main " + arguments + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  return {output, pclose(pipe)};
}

TEST(MemplanMainTest, PlansAFileAndSaysWhatItSaves) {
  const auto [output, status] = Memplan("--draw=text memplan/example.txt");
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find("2 batches in 2 launches; 0 copies of 0 bytes"), output.npos) << output;
  EXPECT_NE(output.find("naive: 4 copies of 80 bytes"), output.npos) << output;
  EXPECT_NE(output.find("memory "), output.npos);
}

// The pictures in README.md.
TEST(MemplanMainTest, DrewThePicturesOfTheReadme) {
  const auto file = [](const std::string& name) {
    std::ifstream stream(name);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(Memplan("--draw=svg memplan/example.txt").first, file("memplan/example.svg"));
  EXPECT_EQ(Memplan("--draw=svg --naive memplan/example.txt").first,
            file("memplan/example_naive.svg"));
  const std::string readme = file("memplan/README.md");
  for (const std::string flags : {"--draw=text ", "--draw=text --naive "}) {
    const std::string output = Memplan(flags + "memplan/example.txt").first;
    const size_t begin = output.find("memory"), end = output.find("\n\n", begin);
    EXPECT_NE(readme.find(output.substr(begin, end - begin)), readme.npos) << output;
  }
}

TEST(MemplanMainTest, RefusesWhatItDoesNotKnow) {
  for (const std::string flag : {"--draw=oil", "--max-checks=", "--max-checks=12many",
                                 "--max-checks=-1", "--max-checks=99999999999"}) {
    const auto [output, status] = Memplan(flag + " memplan/example.txt");
    EXPECT_NE(status, 0) << flag;
    EXPECT_NE(output.find(flag + " is not a flag of ours"), output.npos) << output;
  }
  const auto [planned, ok] = Memplan("--full --max-checks=12 memplan/example.txt");
  EXPECT_EQ(ok, 0) << planned;
  EXPECT_NE(Memplan("no/such/file").first.find("cannot read no/such/file"), std::string::npos);
  const auto [output, status] = Memplan("--help");
  EXPECT_EQ(status, 0);
  EXPECT_NE(output.find("--draw=none"), output.npos);
}

}  // namespace
}  // namespace cellbatch
