// The consecutive-ones property of matrices up to 200 x 200, by the PQ tree and by a method that shares nothing with it.
//
// McConnell ("A certifying algorithm for the consecutive-ones property", SODA 2004): let s(a, b) say whether column a
// stands left of column b, for every pair. If a row holds a and c but not b, then a and c stand on one side of b:
// s(a, b) = s(c, b). The columns can be ordered if and only if these equations, with s(a, b) = not s(b, a), have a solution;
// that the solution be transitive need not be asked. So: a union-find with parity over the pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "memplan/pq_tree.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20040111;
using Rows = std::vector<std::vector<int>>;

class McConnell {
 public:
  static bool HasConsecutiveOnes(const Rows& rows, int columns) {
    McConnell pairs(columns);
    for (const std::vector<int>& row : rows) {
      std::vector<bool> in(columns, false);
      for (int a : row) in[a] = true;
      for (int b = 0; b < columns; ++b) {
        if (in[b]) continue;
        for (size_t i = 1; i < row.size(); ++i) {
          if (!pairs.Equal(row[0], row[i], b)) return false;
        }
      }
    }
    return true;
  }

 private:
  explicit McConnell(int columns)
      : columns_(columns), parent_(columns * columns), flipped_(columns * columns, false) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  // The class of s(a, b), and whether s(a, b) is the opposite of its head.
  std::pair<int, bool> Find(int a, int b) {
    const bool swapped = a > b;
    int at = swapped ? b * columns_ + a : a * columns_ + b;
    bool flipped = swapped;
    while (parent_[at] != at) {
      const int up = parent_[at];
      flipped ^= flipped_[at];
      if (parent_[up] != up) {  // halve the path
        flipped_[at] = flipped_[at] ^ flipped_[up];
        parent_[at] = parent_[up];
        flipped ^= flipped_[up];
      }
      at = parent_[at];
    }
    return {at, flipped};
  }
  // Adds s(a, b) = s(c, b). False: a contradiction.
  bool Equal(int a, int c, int b) {
    const auto [x, x_flipped] = Find(a, b);
    const auto [y, y_flipped] = Find(c, b);
    if (x == y) return x_flipped == y_flipped;
    parent_[x] = y;
    flipped_[x] = x_flipped != y_flipped;
    return true;
  }

  int columns_;
  std::vector<int> parent_;
  std::vector<bool> flipped_;
};

bool IsInterval(const std::vector<int>& row, const std::vector<int>& place) {
  int low = place[row[0]], high = low;
  for (int column : row) {
    low = std::min(low, place[column]);
    high = std::max(high, place[column]);
  }
  return high - low + 1 == static_cast<int>(row.size());
}

bool PqTreeAccepts(const Rows& rows, int columns) {
  PqTree tree(columns);
  for (const std::vector<int>& row : rows) {
    if (!tree.Reduce(row)) return false;
  }
  std::vector<int> place(columns);
  const std::vector<int> frontier = tree.Frontier();
  for (int i = 0; i < columns; ++i) place[frontier[i]] = i;
  for (const std::vector<int>& row : rows) EXPECT_TRUE(IsInterval(row, place));
  return true;
}

// Intervals of a hidden order, with `flips` entries changed.
Rows NearlyIntervals(int num_rows, int columns, int flips, int longest, std::mt19937_64& random) {
  std::vector<int> hidden(columns);
  std::iota(hidden.begin(), hidden.end(), 0);
  std::shuffle(hidden.begin(), hidden.end(), random);
  Rows rows;
  for (int r = 0; r < num_rows; ++r) {
    const int begin = random() % columns;
    const int end = std::min<int>(columns, begin + 1 + random() % longest);
    rows.emplace_back(hidden.begin() + begin, hidden.begin() + end);
    std::shuffle(rows.back().begin(), rows.back().end(), random);
  }
  for (int f = 0; f < flips; ++f) {
    std::vector<int>& row = rows[random() % num_rows];
    const int column = random() % columns;
    const auto at = std::find(row.begin(), row.end(), column);
    if (at == row.end()) {
      row.push_back(column);
    } else if (row.size() > 1) {
      row.erase(at);
    }
  }
  return rows;
}

TEST(ConsecutiveOnesTest, MatricesWithTheHiddenOrderAreAccepted) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 400; ++round) {
    const int columns = 2 + random() % 199, num_rows = 1 + random() % 200;
    const Rows rows = NearlyIntervals(num_rows, columns, 0, 1 + random() % columns, random);
    ASSERT_TRUE(PqTreeAccepts(rows, columns)) << num_rows << " x " << columns;
  }
}

TEST(ConsecutiveOnesTest, RandomMatricesAreAcceptedAndRefusedAsByMcConnellsMethod) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    const int columns = 3 + random() % 198, num_rows = 2 + random() % 199;
    const int flips = random() % 4, longest = 1 + random() % (round % 2 ? columns : 8);
    const Rows rows = NearlyIntervals(num_rows, columns, flips, longest, random);
    const bool expected = McConnell::HasConsecutiveOnes(rows, columns);
    ASSERT_EQ(PqTreeAccepts(rows, columns), expected)
        << num_rows << " x " << columns << ", " << flips << " flips";
    (expected ? accepted : refused) += 1;
  }
  std::cout << accepted << " accepted, " << refused << " refused\n";
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(ConsecutiveOnesTest, SmallSparseMatricesOfAnyKindAgreeToo) {
  std::mt19937_64 random(kSeed);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int columns = 3 + random() % 8, num_rows = 1 + random() % 6;
    Rows rows(num_rows);
    for (std::vector<int>& row : rows) {
      for (int c = 0; c < columns; ++c) {
        if (random() % 3 == 0) row.push_back(c);
      }
      if (row.empty()) row.push_back(0);
    }
    const bool expected = McConnell::HasConsecutiveOnes(rows, columns);
    ASSERT_EQ(PqTreeAccepts(rows, columns), expected);
    (expected ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cellbatch
