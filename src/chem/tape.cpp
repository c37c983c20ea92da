#include "chem/tape.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera::chem {

namespace {

std::string exchanged(std::string labels, const std::string& pair) {
    for (char& x : labels) x = x == pair[0] ? pair[1] : x == pair[1] ? pair[0] : x;
    return labels;
}

/// The pairs of neighbouring labels in which a tensor is antisymmetric.
std::vector<std::string> antisymmetric_pairs(const RealTensor& x, const std::string& labels) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at + 1 < labels.size(); at += 2)
        for (const auto& e : x.shape().symmetry().elements()) {
            bool only = e.sign < 0;
            for (int d = 0; d < x.rank(); ++d) {
                const int p = static_cast<int>(at), to = d == p ? p + 1 : d == p + 1 ? p : d;
                only = only && e.order[d] == to;
            }
            if (only) out.push_back(labels.substr(at, 2));
        }
    return out;
}

}  // namespace

void add_term(const Term& term, const RealTensor& a, const RealTensor& b, RealTensor& c, TensorWork& work) {
    const auto add = [&](const std::string& result, double factor) {
        work.add_product(term.operands + "->" + result, a, b, c, factor);
    };
    add(term.result, term.factor);
    if (term.first.empty()) return;
    add(exchanged(term.result, term.first), -term.factor);
    if (term.second.empty()) return;
    add(exchanged(term.result, term.second), -term.factor);
    add(exchanged(exchanged(term.result, term.first), term.second), term.factor);
}

Tape::Value Tape::constant(const RealTensor& x) {
    auto node = std::make_shared<Node>();
    node->value = &x;
    node->constant = true;
    return node;
}

Tape::Value Tape::variable(RealTensor x) {
    auto node = std::make_shared<Node>();
    node->own = std::move(x);
    node->value = &node->own;
    nodes_.push_back(node);
    return node;
}

Tape::Value Tape::copy(const Value& x) {
    Value out = variable(*x->value);
    if (!x->constant) steps_.push_back({x, nullptr, out, {}});
    return out;
}

void Tape::add(const Term& term, const Value& a, const Value& b, Value& c) {
    ensure(!c->constant, "a constant is added to");
    add_term(term, *a->value, *b->value, c->own, work_);
    steps_.push_back({a, b, c, term});
}

/// The adjoint of one operand. That of the result has the signs of all exchanges in it, so each of them gives the same.
void Tape::reach(const Step& step, bool first) {
    const Value &to = first ? step.a : step.b, &with = first ? step.b : step.a;
    if (to->constant) return;
    const auto comma = step.term.operands.find(',');
    const std::string left = step.term.operands.substr(0, comma), right = step.term.operands.substr(comma + 1);
    const std::string &mine = first ? left : right, &other = first ? right : left;
    Term back{step.term.result + "," + other, mine, step.term.factor};
    if (!step.term.first.empty()) back.factor *= 2;
    if (!step.term.second.empty()) back.factor *= 2;
    // Where both labels of a pair come from one that is antisymmetric in them, so is the product.
    auto given = antisymmetric_pairs(*step.c->value, step.term.result);
    for (auto& pair : antisymmetric_pairs(*with->value, other)) given.push_back(std::move(pair));
    for (const auto& pair : antisymmetric_pairs(*to->value, mine)) {
        if (std::ranges::find(given, pair) != given.end()) continue;
        (back.first.empty() ? back.first : back.second) = pair;
        back.factor /= 2;
    }
    add_term(back, step.c->adjoint, *with->value, to->adjoint, work_);
}

void Tape::backwards(const std::vector<std::pair<Value, RealTensor>>& seeds) {
    for (const auto& node : nodes_) {
        node->adjoint = *node->value;
        scale(node->adjoint, 0.0);
    }
    for (const auto& [node, seed] : seeds) axpy(1.0, seed, node->adjoint);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
        if (!step->b) {
            axpy(1.0, step->c->adjoint, step->a->adjoint);
            continue;
        }
        reach(*step, true);
        reach(*step, false);
    }
}

}  // namespace tessera::chem
