#pragma once
// The plans that contract() keeps (tessera/contract/kept_plans.hpp).

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "contract/planned_impl.hpp"
#include "tessera/contract/kept_plans.hpp"

namespace tessera {

/// All that a plan is made from, by reference: what is kept stands in the plan itself.
struct PlanKey {
    std::string_view spec;
    const OperandShape &a, &b;
    const OperandShape* c;  // null: none
    ScalarKind scalar;
    const Resources& here;
    const Communicator& ranks;
    const ContractOptions& options;
    const PlanOptions& how;

    /// Whether nothing else decides what the plan is. A filter looks at norms; bounds cut tiles; devices have what
    /// memory is free; files of machines change; several ranks would have to agree on what each has kept.
    bool complete() const;
    /// All operands live on one device: then its free memory decides nothing but whether the plan still fits.
    bool resident() const;
    std::uint64_t hash() const;
};

/// Thread-safe. Bounded in plans and bytes: the least recently used go first.
class PlanCache {
  public:
    PlanCache(std::int64_t most_plans, std::int64_t most_bytes) : now_{0, 0, 0, 0, most_plans, most_bytes} {}
    /// The one of contract(), which release_memory() clears.
    static PlanCache& instance();

    std::optional<PlannedContraction> find(const PlanKey& key);
    /// For the next one who asks; nothing where it is larger than all that may be kept.
    void keep(const PlanKey& key, const PlannedContraction& planned);
    void clear() noexcept;
    KeptPlans kept() const;

  private:
    struct Entry {
        std::uint64_t hash;
        std::string spec;
        SourceKind source_a, source_b;  // as given
        std::optional<Shape> c, given;
        PlannedContraction planned;
        std::int64_t bytes;
        bool is(const PlanKey& key) const;
    };
    using Entries = std::list<std::shared_ptr<const Entry>>;

    mutable std::mutex mutex_;
    Entries entries_;  // the last used first
    std::unordered_map<std::uint64_t, Entries::iterator> by_hash_;
    KeptPlans now_;
};

}  // namespace tessera
