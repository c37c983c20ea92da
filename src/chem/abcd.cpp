#include "chem/abcd.hpp"

namespace tessera::chem {

namespace {

class Stored final : public AbcdTerm {
  public:
    Stored(const RealTensor& vvvv, const Tiling& occupied) : vvvv_(vvvv), pairs_(occupied) {}
    RealTensor apply(const RealTensor& tau, const RealTensor&, TensorWork& work) override {
        return unpack_pairs(work.product("pcd,cdab->pab", pack_pairs(tau, pairs_), vvvv_), pairs_);
    }
    bool dressed() const override { return false; }

  private:
    const RealTensor& vvvv_;
    PairIndex pairs_;
};

}  // namespace

std::unique_ptr<AbcdTerm> stored_abcd(const RealTensor& vvvv, const Tiling& occupied) {
    return std::make_unique<Stored>(vvvv, occupied);
}

}  // namespace tessera::chem
