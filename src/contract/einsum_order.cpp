#include "contract/einsum_order.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "contract/einsum_counts.hpp"

namespace tessera {

namespace {

// The search may take this share of the counted work, or what planning a small contraction takes anyway.
constexpr double kMostOfWork = 0.05, kFree = 20'000;

/// Each part that is no operand, and the two that give it.
using Tree = std::map<Set, std::pair<Set, Set>>;

/// The first operand of a pair is the one that comes first in the spec.
std::pair<Set, Set> ordered(Set p, Set q) {
    return std::countr_zero(p) < std::countr_zero(q) ? std::pair{p, q} : std::pair{q, p};
}

class Search {
  public:
    Search(Counter& counter, const Labels& labels, int operands) : counter_(counter), labels_(labels) {
        for (int o = 0; o < operands; ++o) leaves_.push_back(bit(o));
    }
    const std::vector<Set>& leaves() const { return leaves_; }

    /// Again and again the pair that costs least, counting what its result is larger than the two. Parts without a
    /// common label come last.
    Tree greedy() {
        Tree tree;
        auto parts = leaves_;
        while (parts.size() > 1) {
            std::pair<Set, Set> best{0, 0};
            double least = kNever;
            bool best_meets = false;
            for (std::size_t i = 0; i < parts.size(); ++i)
                for (std::size_t j = i + 1; j < parts.size(); ++j) {
                    const auto [p, q] = ordered(parts[i], parts[j]);
                    const bool meets = labels_.meet(p, q);
                    if (best_meets && !meets) continue;
                    const auto c = counter_.count(p, q);
                    if (c.flops == kNever) continue;
                    const double more = c.elements - counter_.elements(p) - counter_.elements(q);
                    const double score = OrderCost{c.flops, more}.nanoseconds();
                    if (score < least || (meets && !best_meets)) {
                        least = score;
                        best = {p, q};
                        best_meets = meets;
                    }
                }
            require(best.first != 0, "einsum: no order keeps its intermediates within {} indices and 64 bits",
                    kMaxRank);
            const Set whole = best.first | best.second;
            if (parts.size() > 2 && !counter_.make(best.first, best.second)) continue;  // another pair
            tree[whole] = best;
            std::erase_if(parts, [&](Set s) { return (s & whole) != 0; });
            parts.push_back(whole);
        }
        return tree;
    }

    /// Of a subtree; no further once its flops are above a limit and counting is dear. `whole`: it was counted to its
    /// end.
    OrderCost cost(const Tree& tree, Set root, double most_flops = kNever, double most_spent = kNever,
                   bool* whole = nullptr) {
        OrderCost out;
        if (whole) *whole = true;
        for (const auto s : steps_of(tree, root)) {
            const auto [p, q] = tree.at(s);
            const auto c = counter_.count(p, q);
            if (c.flops == kNever) {
                if (whole) *whole = false;
                out.flops = kNever;
                return out;
            }
            out.flops += c.flops;
            out.elements += counter_.elements(p) + counter_.elements(q);
            if (s == root) break;
            if (out.flops > most_flops && counter_.spent + counter_.price(c) > most_spent) {
                if (whole) *whole = false;
                return out;
            }
            if (!counter_.make(p, q)) {
                out.flops = kNever;
                return out;
            }
            out.elements += counter_.elements(s);
        }
        return out;
    }

    /// The cheapest tree over these parts (at most kMostExact), if it is cheaper than `most`: every subset, every way
    /// to cut it in two. Nothing where `budget` nanoseconds do not suffice, or none is cheaper.
    struct Best {
        Tree tree;
        OrderCost cost;
    };
    enum class End { done, too_dear };
    End exact(const std::vector<Set>& parts, double most, double budget, std::optional<Best>& found) {
        const std::size_t n = parts.size();
        struct Sub {
            Set set = 0;
            std::pair<Set, Set> cut{0, 0};
            std::size_t left = 0, right = 0;
            OrderCost cost{kNever, 0};
        };
        std::vector<Sub> subs(std::size_t{1} << n);
        for (std::size_t i = 0; i < n; ++i) {
            subs[std::size_t{1} << i].set = parts[i];
            subs[std::size_t{1} << i].cost = {0, 0};
        }
        for (std::size_t s = 1; s < subs.size(); ++s) {  // a subset's subsets have smaller numbers
            auto& sub = subs[s];
            if (std::has_single_bit(s)) continue;
            for (std::size_t i = 0; i < n; ++i)
                if (s >> i & 1) sub.set |= parts[i];
            std::pair<Set, Set> fewest{0, 0};
            double products = kNever;
            const std::size_t low = s & (~s + 1);
            for (std::size_t l = (s - 1) & s; l > 0; l = (l - 1) & s) {
                if (!(l & low)) continue;
                const auto &x = subs[l], &y = subs[s ^ l];
                if (x.cost.flops == kNever || y.cost.flops == kNever) continue;
                OrderCost cost{x.cost.flops + y.cost.flops, x.cost.elements + y.cost.elements};
                if (cost.nanoseconds() >= most) continue;
                const auto [p, q] = ordered(x.set, y.set);
                if (counter_.spent > budget) return End::too_dear;
                const auto c = counter_.count(p, q);
                if (c.flops == kNever) continue;
                cost.flops += c.flops;
                cost.elements += counter_.elements(p) + counter_.elements(q);
                if (cost.nanoseconds() < sub.cost.nanoseconds()) {
                    sub.cost = cost;
                    sub.cut = {p, q};
                    sub.left = l;
                    sub.right = s ^ l;
                }
                if (c.products < products) {
                    products = c.products;
                    fewest = {p, q};
                }
            }
            if (s + 1 == subs.size() || sub.cost.flops == kNever) continue;
            if (sub.cost.nanoseconds() >= most) {
                sub.cost.flops = kNever;
                continue;
            }
            if (!counter_.there(sub.set)) {
                const auto c = counter_.count(fewest.first, fewest.second);
                if (counter_.spent + counter_.price(c) > budget) return End::too_dear;
                if (!counter_.make(fewest.first, fewest.second)) {
                    sub.cost.flops = kNever;
                    continue;
                }
            }
            sub.cost.elements += counter_.elements(sub.set);
        }
        const auto& whole = subs.back();
        if (!(whole.cost.nanoseconds() < most)) return End::done;
        found.emplace();
        found->cost = whole.cost;
        std::vector<std::size_t> todo{subs.size() - 1};
        while (!todo.empty()) {
            const auto& sub = subs[todo.back()];
            const bool single = std::has_single_bit(todo.back());
            todo.pop_back();
            if (single) continue;
            found->tree[sub.set] = sub.cut;
            todo.push_back(sub.left);
            todo.push_back(sub.right);
        }
        return End::done;
    }

    /// Subtrees of at most kMostExact parts made as cheap as they can be, from the root on down, as long as that helps
    /// and counting is not too dear. Never more flops than `most_flops`, however few bytes. True where the tree is the
    /// cheapest of all.
    bool refine(Tree& tree, double budget, double most_flops = kNever) {
        const Set all = labels_.all();
        double flops = cost(tree, all).flops;
        const bool small = leaves_.size() <= kMostExact;
        for (int round = 0; round < 4; ++round) {
            bool better = false;
            std::vector<Set> roots{all};
            for (std::size_t i = 0; i < roots.size(); ++i) {
                const Set root = roots[i];
                const auto parts = frontier(tree, root);
                const auto old = cost(tree, root, parts);
                std::optional<Best> found;
                if (exact(parts, old.nanoseconds(), budget, found) == End::too_dear) return false;
                if (found && flops - old.flops + found->cost.flops > most_flops) {
                    if (small) return false;
                } else if (found) {
                    flops += found->cost.flops - old.flops;
                    for (auto s : inner(tree, root, parts)) tree.erase(s);
                    tree.insert(found->tree.begin(), found->tree.end());
                    better = true;
                }
                if (small) return true;
                for (const Set s : {tree.at(root).first, tree.at(root).second})
                    if (std::popcount(s) > 2) roots.push_back(s);
            }
            if (!better) break;
        }
        return false;
    }

    /// The parts of a tree in an order in which they can be made: of two, first the one that needs more room while it
    /// is made.
    std::vector<Set> steps_of(const Tree& tree, Set root) const {
        std::vector<Set> out;
        add_steps(tree, root, out);
        return out;
    }

  private:
    /// Elements of intermediates at most, while the part is made.
    double room(const Tree& tree, Set s) const {
        if (std::has_single_bit(s) || !tree.contains(s)) return 0;
        const auto [p, q] = tree.at(s);
        const double of_p = size(tree, p), of_q = size(tree, q), room_p = room(tree, p), room_q = room(tree, q);
        const double first = std::max(room_p, of_p + room_q), other = std::max(room_q, of_q + room_p);
        return std::max(std::min(first, other), of_p + of_q + size(tree, s));
    }
    double size(const Tree& tree, Set s) const {
        return tree.contains(s) && counter_.there(s) ? counter_.elements(s) : 0;
    }
    void add_steps(const Tree& tree, Set s, std::vector<Set>& out) const {
        const auto at = tree.find(s);
        if (at == tree.end()) return;
        auto [p, q] = at->second;
        if (std::max(room(tree, q), size(tree, q) + room(tree, p)) <
            std::max(room(tree, p), size(tree, p) + room(tree, q)))
            std::swap(p, q);
        add_steps(tree, p, out);
        add_steps(tree, q, out);
        out.push_back(s);
    }

    /// The part and what it is made of, down to at most kMostExact pieces: the largest piece is opened first.
    std::vector<Set> frontier(const Tree& tree, Set root) const {
        std::vector<Set> parts{root};
        while (parts.size() < kMostExact) {
            auto open = parts.end();
            for (auto i = parts.begin(); i != parts.end(); ++i)
                if (tree.contains(*i) && (open == parts.end() || std::popcount(*i) > std::popcount(*open))) open = i;
            if (open == parts.end()) break;
            const auto [p, q] = tree.at(*open);
            *open = p;
            parts.push_back(q);
        }
        std::sort(parts.begin(), parts.end(), [](Set x, Set y) { return std::countr_zero(x) < std::countr_zero(y); });
        return parts;
    }
    /// Parts of the tree between the root and its frontier.
    std::vector<Set> inner(const Tree& tree, Set root, const std::vector<Set>& parts) const {
        std::vector<Set> out, todo{root};
        while (!todo.empty()) {
            const Set s = todo.back();
            todo.pop_back();
            if (std::find(parts.begin(), parts.end(), s) != parts.end()) continue;
            out.push_back(s);
            todo.push_back(tree.at(s).first);
            todo.push_back(tree.at(s).second);
        }
        return out;
    }
    OrderCost cost(const Tree& tree, Set root, const std::vector<Set>& parts) {
        Tree only;
        for (const Set s : inner(tree, root, parts)) only[s] = tree.at(s);
        return cost(only, root);
    }

    Counter& counter_;
    const Labels& labels_;
    std::vector<Set> leaves_;
};

Tree dense_tree(int operands, const Labels& labels, double budget, double& spent) {
    DenseCounter counter(labels);
    Search search(counter, labels, operands);
    auto tree = search.greedy();
    search.refine(tree, budget);
    spent += counter.spent;
    return tree;
}

/// The numbers of parts, and specs; labels of operands as they are given.
std::vector<EinsumStep> written(const EinsumSpec& spec, const Labels& labels, const Tree& tree,
                                const std::vector<Set>& sets) {
    std::map<Set, int> number;
    for (int o = 0; o < spec.count(); ++o) number[bit(o)] = o;
    const auto labels_of = [&](Set s) {
        return std::has_single_bit(s) ? spec.operands[static_cast<std::size_t>(std::countr_zero(s))] : labels.of(s);
    };
    std::vector<EinsumStep> out;
    for (const auto s : sets) {
        const auto [p, q] = tree.at(s);
        EinsumStep step;
        step.left = number.at(p);
        step.right = number.at(q);
        step.spec = labels_of(p) + "," + labels_of(q) + "->" + labels.of(s);
        number[s] = spec.count() + static_cast<int>(out.size());
        out.push_back(std::move(step));
    }
    return out;
}

std::string tree_text(const std::vector<EinsumStep>& steps) {
    const auto operands = static_cast<int>(steps.size()) + 1;
    std::vector<std::string> names;
    for (int o = 0; o < operands; ++o) names.push_back(fmt::format("{}", o + 1));
    for (const auto& s : steps)
        names.push_back("(" + names[static_cast<std::size_t>(s.left)] + " " + names[static_cast<std::size_t>(s.right)] +
                        ")");
    return names.back();
}

}  // namespace

std::string EinsumOrder::tree() const { return tree_text(steps); }
std::string EinsumOrder::dense_tree() const { return tree_text(dense_steps); }

std::string own_labels(const EinsumSpec& spec, int operand) {
    std::string out;
    for (const char l : spec.operands[static_cast<std::size_t>(operand)]) {
        bool kept = spec.result.find(l) != std::string::npos;
        for (int o = 0; o < spec.count(); ++o)
            kept |= o != operand && spec.operands[static_cast<std::size_t>(o)].find(l) != std::string::npos;
        if (kept && out.find(l) == std::string::npos) out += l;
    }
    return out;
}

EinsumOrder order_of(const EinsumSpec& spec, std::span<const Shape* const> shapes, double filter,
                     double alpha_magnitude) {
    std::vector<IndexVector> extents;
    for (const auto* s : shapes) extents.push_back(s->grid().extents());
    const Labels labels(spec, extents);
    const Set all = labels.all();
    ShapeCounter counter(spec, labels, shapes, filter, alpha_magnitude);
    Search search(counter, labels, spec.count());
    auto tree = search.greedy();
    auto cost = search.cost(tree, all);
    const double budget = std::max(kFree, kMostOfWork * cost.nanoseconds());

    // The order of dense counts, as far as it may be the better one.
    EinsumOrder order;
    counter.spent = 0;
    const auto dense = dense_tree(spec.count(), labels, budget, counter.spent);
    order.dense = search.cost(dense, all, cost.flops, budget, &order.dense_whole);
    if (order.dense_whole && order.dense.flops < cost.flops) {
        tree = dense;
        cost = order.dense;
    }
    order.exact = search.refine(tree, budget, std::max(cost.flops, order.dense.flops));

    const auto sets = search.steps_of(tree, all);
    order.steps = written(spec, labels, tree, sets);
    order.dense_steps = written(spec, labels, dense, search.steps_of(dense, all));
    // With a filter the tiles of a part depend on how it was made: once more, step after step.
    std::optional<ShapeCounter> again;
    if (filter > 0) again.emplace(spec, labels, shapes, filter, alpha_magnitude);
    ShapeCounter& last = again ? *again : counter;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const auto [p, q] = tree.at(sets[i]);
        auto& step = order.steps[i];
        step.filter = last.threshold(sets[i]);
        const auto c = last.count(p, q);
        step.products = static_cast<std::int64_t>(c.products);
        step.cost = {c.flops, last.elements(p) + last.elements(q)};
        if (sets[i] != all) {
            ensure(last.make(p, q), "einsum '{}': step '{}' cannot be made", spec.text(), step.spec);
            step.cost.elements += last.elements(sets[i]);
        }
        if (last.there(sets[i])) step.result = last.shape(sets[i]);
        order.cost.flops += step.cost.flops;
        order.cost.elements += step.cost.elements;
    }
    return order;
}

EinsumOrder dense_order_of(const EinsumSpec& spec, std::span<const IndexVector> extents) {
    const Labels labels(spec, extents);
    DenseCounter counter(labels);
    Search search(counter, labels, spec.count());
    EinsumOrder order;
    auto tree = search.greedy();
    counter.spent = 0;
    order.exact = search.refine(tree, std::max(kFree, kMostOfWork * search.cost(tree, labels.all()).nanoseconds()));
    const auto sets = search.steps_of(tree, labels.all());
    order.steps = written(spec, labels, tree, sets);
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const auto [p, q] = tree.at(sets[i]);
        auto& step = order.steps[i];
        step.products = 1;
        step.result_elements = counter.elements(sets[i]);
        step.cost = {counter.count(p, q).flops, counter.elements(p) + counter.elements(q)};
        if (sets[i] != labels.all()) step.cost.elements += counter.elements(sets[i]);
        order.cost.flops += step.cost.flops;
        order.cost.elements += step.cost.elements;
    }
    order.dense = order.cost;
    order.dense_steps = order.steps;
    return order;
}

}  // namespace tessera
