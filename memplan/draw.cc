#include "memplan/draw.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {
namespace {

// A planner's tree without the leaves that stand for operators: nodes that keep one child are that child.
struct Drawn {
  std::string label;  // of a leaf
  VariableId leaf = -1;
  bool ordered = false;
  std::vector<Drawn> children;
};

Drawn Pruned(const LayoutProblem& problem, const PqTree& tree, PqTree::NodeId node) {
  Drawn drawn;
  if (tree.kind(node) == PqTree::Kind::kLeaf) {
    if (node < static_cast<PqTree::NodeId>(problem.variables.size())) {
      drawn.leaf = node;
      drawn.label = problem.variables[node].name;
    }
    return drawn;
  }
  drawn.ordered = tree.kind(node) == PqTree::Kind::kQ;
  for (PqTree::NodeId child : tree.Children(node)) {
    Drawn below = Pruned(problem, tree, child);
    if (below.leaf >= 0 || !below.children.empty()) drawn.children.push_back(std::move(below));
  }
  if (drawn.children.size() == 1) return Drawn(std::move(drawn.children[0]));
  return drawn;
}

std::string ToText(const Drawn& drawn) {
  if (drawn.leaf >= 0) return drawn.label;
  std::string text;
  for (const Drawn& child : drawn.children) text += (text.empty() ? "" : " ") + ToText(child);
  return drawn.ordered ? "[" + text + "]" : "(" + text + ")";
}

// The variables a picture shows, first to last: the plan's, then the fixed runs'. Those that no batch of several operators
// names would only make it wide.
struct Columns {
  std::vector<VariableId> variables;
  std::set<size_t> bars;  // columns that begin a place of their own
  std::map<VariableId, size_t> column_of;

  Columns(const LayoutProblem& problem, const MemoryLayout& layout) {
    std::set<VariableId> named;
    for (const OperandBatch& batch : problem.batches) {
      if (batch.size() < 2) continue;
      for (const Operand& operand : batch.operands) named.insert(operand.begin(), operand.end());
    }
    const auto add = [&](const std::vector<VariableId>& run) {
      if (!variables.empty()) bars.insert(variables.size());
      for (VariableId v : run) {
        if (!named.contains(v)) continue;
        column_of[v] = variables.size();
        variables.push_back(v);
      }
    };
    add(layout.order);
    for (const auto& run : problem.fixed) add(run);
  }
};

// An operand's fate, for the end of its line.
std::string Fate(const MemoryLayout& layout, const OperandRef& where) {
  for (const OperandCopy& copy : layout.copies) {
    if (copy.where == where)
      return fmt::format("{}, {} bytes", copy.is_scatter() ? "scattered" : "gathered", copy.bytes);
  }
  for (const OperandRef& packed : layout.packed) {
    if (packed == where) return "packed at load";
  }
  return "";
}

std::string OperandName(size_t operand) {
  return operand == 0 ? "result" : fmt::format("source {}", operand);
}

// Per column, which operators of the batch (counted from 1 in the order they run) have their entry there.
std::map<size_t, std::string> Marks(const LayoutProblem& problem, const MemoryLayout& layout,
                                    const Columns& columns, size_t batch, size_t operand) {
  std::map<size_t, std::string> marks;
  const std::vector<int32_t>& order = layout.operator_order[batch];
  for (size_t j = 0; j < order.size(); ++j) {
    std::string& mark =
        marks[columns.column_of.at(problem.batches[batch].operands[operand][order[j]])];
    mark += (mark.empty() ? "" : ",") + std::to_string(j + 1);
  }
  return marks;
}

using DrawOperand =
    std::function<void(size_t batch, size_t operand, const std::map<size_t, std::string>& marks)>;

void ForEachOperand(const LayoutProblem& problem, const MemoryLayout& layout,
                    const Columns& columns, const DrawOperand& draw) {
  for (size_t b = 0; b < problem.batches.size(); ++b) {
    if (problem.batches[b].size() < 2) continue;
    for (size_t o = 0; o < problem.batches[b].operands.size(); ++o)
      draw(b, o, Marks(problem, layout, columns, b, o));
  }
}

std::string WithoutTrailingSpaces(std::string_view text) {
  std::string trimmed;
  for (char c : text) {
    while (c == '\n' && !trimmed.empty() && trimmed.back() == ' ') trimmed.pop_back();
    trimmed += c;
  }
  return trimmed;
}

constexpr std::string_view kColours[] = {"#4477aa", "#cc6677", "#228833", "#ccbb44",
                                         "#66ccee", "#aa3377", "#999933"};
constexpr int kCell = 64, kRow = 22, kLeft = 170, kLevel = 46;

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string SvgText(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                     std::string(anchor), Escaped(text));
}

int Depth(const Drawn& drawn) {
  int depth = 0;
  for (const Drawn& child : drawn.children) depth = std::max(depth, 1 + Depth(child));
  return depth;
}

// Draws the subtree with its leaves above their columns; returns where its top is. Nothing for leaves without a column.
std::vector<double> SvgTree(const Drawn& drawn, const Columns& columns, int bottom, bool is_root,
                            std::string& svg) {
  if (drawn.leaf >= 0) {
    const auto column = columns.column_of.find(drawn.leaf);
    if (column == columns.column_of.end()) return {};
    return {kLeft + (column->second + 0.5) * kCell, static_cast<double>(bottom)};
  }
  const double y = bottom - Depth(drawn) * kLevel;
  std::vector<std::pair<double, double>> tops;
  for (const Drawn& child : drawn.children) {
    const std::vector<double> top = SvgTree(child, columns, bottom, false, svg);
    if (!top.empty()) tops.push_back({top[0], top[1]});
  }
  if (tops.empty()) return {};
  if (is_root && !drawn.ordered)
    return {};  // "in any order" of everything: the lines would only cross
  double low = tops[0].first, high = low;
  for (const auto& [x, top] : tops) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const double middle = (low + high) / 2;
  std::string lines;
  for (const auto& [x, top] : tops) {
    const double from = drawn.ordered ? x : middle;
    lines += fmt::format("<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"/>\n", from,
                         y, x, top);
  }
  svg += lines;
  if (drawn.ordered) {
    svg += fmt::format(
        "<rect class=\"q\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"12\" rx=\"3\"/>\n",
        low - 8, y - 6, high - low + 16);
  } else {
    svg += fmt::format("<circle class=\"p\" cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"7\"/>\n", middle, y);
  }
  return {middle, y};
}

std::string SvgMemory(const LayoutProblem& problem, const Columns& columns, int top) {
  std::string svg = SvgText(8, top + 19, "start", "memory");
  for (size_t c = 0; c < columns.variables.size(); ++c) {
    const int x = kLeft + static_cast<int>(c) * kCell;
    svg += fmt::format("<rect class=\"m\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"28\"/>\n", x, top,
                       kCell);
    if (columns.bars.contains(c)) {
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"4\" height=\"40\"/>\n", x - 2, top - 6);
    }
    svg +=
        SvgText(x + kCell / 2.0, top + 19, "middle", problem.variables[columns.variables[c]].name);
  }
  return svg;
}

}  // namespace

std::string DrawTree(const LayoutProblem& problem, const PqTree& tree) {
  return tree.root() == PqTree::kNone ? "" : ToText(Pruned(problem, tree, tree.root()));
}

std::string DrawText(const LayoutProblem& problem, const MemoryLayout& layout) {
  const Columns columns(problem, layout);
  size_t name_width = 6;
  for (const OperandBatch& batch : problem.batches)
    name_width = std::max(name_width, batch.name.size());
  std::string text = fmt::format("{:<{}}          ", "memory", name_width);
  std::vector<size_t> width;
  for (size_t c = 0; c < columns.variables.size(); ++c) {
    const std::string& name = problem.variables[columns.variables[c]].name;
    width.push_back(std::max<size_t>(2, name.size()));
    text += fmt::format("{}{:<{}}", columns.bars.contains(c) ? "|" : " ", name, width[c]);
  }
  text += "\n";
  ForEachOperand(
      problem, layout, columns,
      [&](size_t b, size_t o, const std::map<size_t, std::string>& marks) {
        const std::string fate = Fate(layout, {static_cast<int32_t>(b), static_cast<int32_t>(o)});
        text += fmt::format("{:<{}} {:<9}", o == 0 ? problem.batches[b].name : "", name_width,
                            OperandName(o));
        for (size_t c = 0; c < width.size(); ++c) {
          const auto mark = marks.find(c);
          text += fmt::format(" {:<{}}", mark == marks.end() ? "." : mark->second, width[c]);
        }
        text += (fate.empty() ? "" : "  " + fate) + "\n";
      });
  return WithoutTrailingSpaces(text);
}

std::string DrawSvg(const LayoutProblem& problem, const MemoryLayout& layout,
                    const PlanTrace* trace) {
  const Columns columns(problem, layout);
  std::string body;
  int y = 16;
  if (trace != nullptr && trace->alike.has_value() && trace->alike->root() != PqTree::kNone) {
    const Drawn tree = Pruned(problem, *trace->alike, trace->alike->root());
    y += std::max(0, Depth(tree)) * kLevel;
    SvgTree(tree, columns, y, true, body);
  }
  body += SvgMemory(problem, columns, y);
  y += 40;
  ForEachOperand(
      problem, layout, columns,
      [&](size_t b, size_t o, const std::map<size_t, std::string>& marks) {
        const std::string fate = Fate(layout, {static_cast<int32_t>(b), static_cast<int32_t>(o)});
        body += SvgText(8, y + 15, "start", o == 0 ? problem.batches[b].name : "");
        body += SvgText(kLeft - 10, y + 15, "end", OperandName(o));
        for (const auto& [c, mark] : marks) {
          body += fmt::format(
              "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
              "fill-opacity=\"{}\"/>\n",
              kLeft + static_cast<int>(c) * kCell + 1, y, kCell - 2, kRow - 3,
              std::string(kColours[b % std::size(kColours)]), fate.empty() ? "0.8" : "0.25");
          body += SvgText(kLeft + (c + 0.5) * kCell, y + 15, "middle", mark);
        }
        body += SvgText(kLeft + columns.variables.size() * kCell + 8, y + 15, "start", fate);
        y += kRow;
      });
  const size_t width = kLeft + columns.variables.size() * kCell + 180;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
             "font-family=\"sans-serif\" "
             "font-size=\"13\">\n<style>line{{stroke:#555}}.p,.q{{fill:#fff;stroke:#555;stroke-"
             "width:2}}"
             ".m{{fill:#eee;stroke:#555}}</style>\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"#fff\"/>\n",
             width, y + 12) +
         body + "</svg>\n";
}

}  // namespace cellbatch
