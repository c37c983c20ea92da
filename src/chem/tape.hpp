#pragma once
// Sums of contractions, done as they come, or kept as well so that derivatives can be taken backwards through them.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "chem/tensor_work.hpp"

namespace tessera::chem {

/// c += factor P a b: spec "operands->result". P sums over exchanges of two labels of the result, with a change of
/// sign: of the first pair, and of the second one. Each term of P is added to the tiles alone that are stored; only
/// their sum has the symmetry of c.
struct Term {
    std::string operands, result;
    double factor = 1;
    std::string first = {}, second = {};
};
void add_term(const Term& term, const RealTensor& a, const RealTensor& b, RealTensor& c, TensorWork& work);

/// Equations are functions of one of these two.
class Direct {
  public:
    using Value = RealTensor;
    explicit Direct(TensorWork& work) : work_(work) {}
    const RealTensor& constant(const RealTensor& x) { return x; }
    RealTensor copy(const RealTensor& x) { return x; }
    void add(const Term& term, const RealTensor& a, const RealTensor& b, RealTensor& c) {
        add_term(term, a, b, c, work_);
    }

  private:
    TensorWork& work_;
};

class Tape {
  public:
    struct Node {
        RealTensor own;
        const RealTensor* value = nullptr;
        bool constant = false;
        RealTensor adjoint;  // of the same shape, zero where nothing has reached it
    };
    using Value = std::shared_ptr<Node>;
    explicit Tape(TensorWork& work) : work_(work) {}
    /// Must outlive the tape; has no derivative.
    Value constant(const RealTensor& x);
    /// What derivatives are taken with respect to.
    Value variable(RealTensor x);
    Value copy(const Value& x);
    void add(const Term& term, const Value& a, const Value& b, Value& c);

    /// Derivatives of the sum of dot(seed, node), dot over all elements: adjoints of all nodes, those of antisymmetric
    /// ones antisymmetric. What stood in them before is lost.
    void backwards(const std::vector<std::pair<Value, RealTensor>>& seeds);

  private:
    struct Step {
        Value a, b, c;  // without b: c begins as a copy of a
        Term term;
    };
    void reach(const Step& step, bool first);
    TensorWork& work_;
    std::vector<Step> steps_;
    std::vector<Value> nodes_;
};

}  // namespace tessera::chem
