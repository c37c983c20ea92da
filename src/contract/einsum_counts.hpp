#pragma once
// Parts of an einsum, and what contracting two of them costs: counted on shapes, or as if all were dense.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contract/einsum_order.hpp"

namespace tessera {

using Set = std::uint64_t;  // of operands
inline constexpr double kNever = std::numeric_limits<double>::infinity();

inline Set bit(int i) { return Set{1} << i; }

/// Which labels a part has: those of its operands that stand in the result or in other operands too.
class Labels {
  public:
    Labels(const EinsumSpec& spec, std::span<const IndexVector> extents);
    Set all() const { return all_; }
    /// In the order in which they come in the spec; those of operands and of the whole as these have them.
    std::string of(Set part) const {
        if (part == all_) return result_;
        if (std::has_single_bit(part)) return own_[static_cast<std::size_t>(std::countr_zero(part))];
        std::string out;
        for (const auto& k : known_)
            if (k.stands_in(part)) out += k.label;
        return out;
    }
    /// Elements of a dense part, and multiply-adds of the product of two.
    double elements(Set part) const {
        double n = 1;
        for (const auto& k : known_)
            if (k.stands_in(part)) n *= k.extent;
        return n;
    }
    double products(Set p, Set q) const {
        double n = 1;
        for (const auto& k : known_)
            if (k.stands_in(p) || k.stands_in(q)) n *= k.extent;
        return n;
    }
    /// The most that a tensor may have.
    bool too_many(Set part) const {
        return std::count_if(known_.begin(), known_.end(), [&](const Known& k) { return k.stands_in(part); }) >
               kMaxRank;
    }
    bool meet(Set p, Set q) const {
        return std::any_of(known_.begin(), known_.end(),
                           [&](const Known& k) { return (k.where & p) && (k.where & q); });
    }

  private:
    struct Known {
        char label;
        Set where;  // operands that have it
        bool in_result;
        double extent;
        bool stands_in(Set part) const { return (where & part) && (in_result || (where & ~part)); }
    };
    std::string result_;
    std::vector<std::string> own_;  // of operands, without those that only they have
    std::vector<Known> known_;
    Set all_ = 0;
};

struct Count {
    double flops = kNever, products = 0;
    double elements = 0;  // of the result at most
};

/// What contracting two parts costs, and how large a part is: of real shapes, or of dense arrays.
class Counter {
  public:
    virtual ~Counter() = default;
    /// Both parts must be there.
    virtual Count count(Set p, Set q) = 0;
    /// What make() takes, in nanoseconds.
    virtual double price(const Count& c) = 0;
    /// The part that two others give; false where it cannot be (too many indices).
    virtual bool make(Set p, Set q) = 0;
    virtual bool there(Set part) const = 0;
    virtual double elements(Set part) const = 0;
    double spent = 0;  // nanoseconds
};

class DenseCounter : public Counter {
  public:
    explicit DenseCounter(const Labels& labels) : labels_(labels) {}
    Count count(Set p, Set q) override;
    double price(const Count&) override { return 0; }
    bool make(Set, Set) override { return true; }
    bool there(Set) const override { return true; }
    double elements(Set part) const override { return labels_.elements(part); }

  private:
    const Labels& labels_;
};

class ShapeCounter : public Counter {
  public:
    ShapeCounter(const EinsumSpec& spec, const Labels& labels, std::span<const Shape* const> shapes, double filter,
                 double alpha_magnitude);

    /// Below this norm a tile of the part is dropped.
    double threshold(Set part) const;
    std::string spec(Set p, Set q) const { return labels_.of(p) + "," + labels_.of(q) + "->" + labels_.of(p | q); }
    const Shape& shape(Set part) const { return parts_.at(part); }

    Count count(Set p, Set q) override;
    double price(const Count& c) override;
    bool make(Set p, Set q) override;
    bool there(Set part) const override { return parts_.contains(part); }
    double elements(Set part) const override { return static_cast<double>(shape(part).elements()); }

  private:
    Count counted(Set p, Set q);
    Count product(Set p, Set q);

    const Labels& labels_;
    double filter_, alpha_;
    std::vector<double> norms_;
    std::map<Set, Shape> parts_;
    std::map<std::pair<Set, Set>, Count> counts_;
};

}  // namespace tessera
