#include "server/cells/dimension.h"

#include <fmt/format.h>

#include <cctype>

namespace cellbatch {
namespace {

constexpr int kMaxDepth = 16;  // of parentheses

// (factor * symbol + constant) / divisor; without a symbol a plain number with divisor 1.
struct Linear {
  int64_t factor = 0;
  int64_t constant = 0;
  int64_t divisor = 1;
  std::string symbol;
  bool known() const { return symbol.empty(); }
};

// Recursive descent with a bounded depth, computing as it reads.
//   sum := product { (+|-) product }   product := atom { (*|/) atom }   atom := number | name | ( sum )
class Reader {
 public:
  Reader(std::string_view text, const Sizes& sizes) : text_(text), sizes_(sizes) {}

  absl::StatusOr<Linear> Read() {
    if (text_.size() > kMaxDimensionText) {
      return absl::InvalidArgumentError(
          fmt::format("a dimension of {} bytes, the limit is {}", text_.size(), kMaxDimensionText));
    }
    absl::StatusOr<Linear> value = Sum(0);
    if (!value.ok()) return value;
    if (Peek() != '\0') return Wrong(fmt::format("\"{}\" is left over", text_.substr(at_)));
    return value;
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("dimension \"{}\": {}", text_, what));
  }

  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  absl::StatusOr<Linear> Sum(int depth) {
    absl::StatusOr<Linear> left = Product(depth);
    while (left.ok() && (Peek() == '+' || Peek() == '-')) {
      const bool minus = text_[at_++] == '-';
      absl::StatusOr<Linear> right = Product(depth);
      if (!right.ok()) return right;
      left = Add(*left, *right, minus ? -1 : 1);
    }
    return left;
  }

  absl::StatusOr<Linear> Product(int depth) {
    absl::StatusOr<Linear> left = Atom(depth);
    while (left.ok() && (Peek() == '*' || Peek() == '/')) {
      const bool divide = text_[at_++] == '/';
      absl::StatusOr<Linear> right = Atom(depth);
      if (!right.ok()) return right;
      left = divide ? Divide(*left, *right) : Multiply(*left, *right);
    }
    return left;
  }

  absl::StatusOr<Linear> Atom(int depth) {
    const char c = Peek();
    if (c == '(') {
      if (depth == kMaxDepth) return Wrong(fmt::format("more than {} parentheses", kMaxDepth));
      ++at_;
      absl::StatusOr<Linear> inside = Sum(depth + 1);
      if (!inside.ok()) return inside;
      if (Peek() != ')') return Wrong("a parenthesis is not closed");
      ++at_;
      return inside;
    }
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty()) return Wrong("a number or a size is missing");
    return std::isdigit(static_cast<unsigned char>(word[0])) ? Number(word) : Size(word);
  }

  absl::StatusOr<Linear> Number(const std::string& digits) {
    int64_t value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') {
        return Wrong(
            fmt::format("\"{}\" is no number, and no size; products are written 4*H", digits));
      }
      value = value * 10 + (c - '0');
      if (value > kMaxDimension) return TooLarge();
    }
    return Linear{.constant = value, .symbol = {}};
  }

  absl::StatusOr<Linear> Size(const std::string& name) {
    const auto found = sizes_.find(name);
    if (found == sizes_.end()) return Linear{.factor = 1, .symbol = name};
    return Checked({.constant = found->second, .symbol = {}});
  }

  absl::Status TooLarge() const { return Wrong(fmt::format("a value beyond {}", kMaxDimension)); }

  absl::StatusOr<Linear> Checked(Linear v) const {
    for (const int64_t part : {v.factor, v.constant, v.divisor}) {
      if (part > kMaxDimension || part < -kMaxDimension) return TooLarge();
    }
    if (v.factor == 0) v.symbol.clear();
    if (!v.known() || v.divisor == 1) return v;
    if (v.constant % v.divisor != 0) {
      return Wrong(fmt::format("{} / {} does not come out even", v.constant, v.divisor));
    }
    return Linear{.constant = v.constant / v.divisor, .symbol = {}};
  }

  absl::StatusOr<Linear> Add(const Linear& a, const Linear& b, int64_t sign) const {
    if (!a.known() && !b.known() && a.symbol != b.symbol) return Unknown(a, b);
    // All parts are below 2^31, so that products of two are below 2^62.
    return Checked({.factor = a.factor * b.divisor + sign * b.factor * a.divisor,
                    .constant = a.constant * b.divisor + sign * b.constant * a.divisor,
                    .divisor = a.divisor * b.divisor,
                    .symbol = a.known() ? b.symbol : a.symbol});
  }

  absl::StatusOr<Linear> Multiply(const Linear& a, const Linear& b) const {
    if (!a.known() && !b.known()) return Unknown(a, b);
    const Linear& open = a.known() ? b : a;
    const Linear& number = a.known() ? a : b;
    return Checked({.factor = open.factor * number.constant,
                    .constant = open.constant * number.constant,
                    .divisor = open.divisor,
                    .symbol = open.symbol});
  }

  absl::StatusOr<Linear> Divide(const Linear& a, const Linear& b) const {
    if (!b.known()) return Unknown(a, b);
    if (b.constant == 0) return Wrong("division by zero");
    return Checked({.factor = a.factor,
                    .constant = a.constant,
                    .divisor = a.divisor * b.constant,
                    .symbol = a.symbol});
  }

  absl::Status Unknown(const Linear& a, const Linear& b) const {
    return absl::NotFoundError(fmt::format("dimension \"{}\": size {} is not known", text_,
                                           b.known() ? a.symbol : b.symbol));
  }

  std::string_view text_;
  const Sizes& sizes_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> EvaluateDimension(std::string_view text, const Sizes& sizes) {
  const absl::StatusOr<Linear> value = Reader(text, sizes).Read();
  if (!value.ok()) return value.status();
  if (value->known()) return value->constant;
  return absl::NotFoundError(
      fmt::format("dimension \"{}\": size {} is not known", text, value->symbol));
}

std::optional<std::pair<std::string, int64_t>> SolveDimension(std::string_view text, int64_t value,
                                                              const Sizes& sizes) {
  const absl::StatusOr<Linear> linear = Reader(text, sizes).Read();
  if (!linear.ok() || linear->known()) return std::nullopt;
  if (value > kMaxDimension || value < -kMaxDimension) return std::nullopt;
  const int64_t rest = value * linear->divisor - linear->constant;
  if (rest % linear->factor != 0) return std::nullopt;
  return std::make_pair(linear->symbol, rest / linear->factor);
}

}  // namespace cellbatch
