// Checks and term builders of the fused contractions; the arithmetic lies in ref/, cpu/ and cuda/.
#include "tessera/kernels/triples.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <tuple>

#include "base/check.hpp"

namespace tessera::kernels {

namespace {

__extension__ typedef __int128 Wide;

/// The addresses a view touches, in bytes, [low, high). 128-bit arithmetic: strides may be anything.
struct AddressRange {
    Wide low = 0, high = 0;
};

std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

AddressRange address_range(const void* data, Wide lowest, Wide highest) {
    const auto base = static_cast<Wide>(address(data));
    return {base + lowest * 8, base + (highest + 1) * 8};
}

void add_axis(Wide& lowest, Wide& highest, std::int64_t extent, std::int64_t stride) {
    const Wide reach = static_cast<Wide>(extent - 1) * stride;
    (reach < 0 ? lowest : highest) += reach;
}

AddressRange operand_range(const BlockExtents& extents, const TermOperand& operand, bool is_a, const FusedTerm& term,
                           std::size_t number, const char* what = "fused term") {
    const char* name = is_a ? "a" : "b";
    require(operand.data != nullptr, "{} {}: operand {} is a null pointer", what, number, name);
    require(address(operand.data) % 8 == 0, "{} {}: operand {} at address {:#x}, which is no multiple of 8", what,
            number, name, address(operand.data));
    Wide lowest = 0, highest = 0;
    for (int n = 0; n < kBlockRank; ++n)
        if (((term.a_indices >> n & 1U) != 0) == is_a) add_axis(lowest, highest, extents[n], operand.stride[n]);
    add_axis(lowest, highest, term.sum_extent, operand.sum_stride);
    const Wide limit = INT64_MAX / 8;
    require(lowest >= -limit && highest <= limit, "{} {}: operand {} reaches past 64 bits", what, number, name);
    return address_range(operand.data, lowest, highest);
}

void check_extents(const BlockExtents& extents) {
    std::int64_t volume = 1;
    for (int n = 0; n < kBlockRank; ++n) {
        require(extents[n] >= 1, "fused block: extent {} of output index {} is below 1", extents[n], n);
        volume = checked_multiply(volume, extents[n], "fused block");
    }
    checked_multiply(volume, 8, "fused block in bytes");
}

void check_sums(std::span<const FusedTerm> terms, const char* what) {
    for (std::size_t t = 0; t < terms.size(); ++t) {
        require(terms[t].sum_extent >= 1, "{} {}: summed extent {} is below 1", what, t, terms[t].sum_extent);
        require(terms[t].a_indices < 1U << kBlockRank, "{} {}: index mask {} names more than six indices", what, t,
                terms[t].a_indices);
    }
}

}  // namespace

void check_fused(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output) {
    check_extents(extents);
    check_sums(terms, "fused term");
    require(output.data != nullptr, "fused block: the output is a null pointer");
    require(address(output.data) % 8 == 0, "fused block: the output at address {:#x}, which is no multiple of 8",
            address(output.data));

    // Nested strides (each one past everything the smaller ones reach) are what keeps output elements apart.
    std::array<int, kBlockRank> order{0, 1, 2, 3, 4, 5};
    auto magnitude = [&](int n) {
        const Wide s = output.stride[n];
        return s < 0 ? -s : s;
    };
    std::sort(order.begin(), order.end(), [&](int x, int y) { return magnitude(x) < magnitude(y); });
    Wide reach = 0, lowest = 0, highest = 0;
    for (int n : order) {
        if (extents[n] == 1) continue;
        require(
            magnitude(n) > reach,
            "fused block: the output overlaps itself or its strides do not nest: stride {} of index {}, and smaller "
            "ones reach {}",
            output.stride[n], n, static_cast<std::int64_t>(std::min<Wide>(reach, INT64_MAX)));
        reach += magnitude(n) * (extents[n] - 1);
        add_axis(lowest, highest, extents[n], output.stride[n]);
    }
    require(reach <= INT64_MAX / 8, "fused block: the output reaches past 64 bits");
    const AddressRange out = address_range(output.data, lowest, highest);
    for (std::size_t t = 0; t < terms.size(); ++t) {
        for (bool is_a : {true, false}) {
            const AddressRange in = operand_range(extents, is_a ? terms[t].a : terms[t].b, is_a, terms[t], t);
            require(in.high <= out.low || out.high <= in.low, "fused term {}: operand {} overlaps the output", t,
                    is_a ? "a" : "b");
        }
    }
}

void check_terms(const BlockExtents& extents, std::span<const FusedTerm> terms, const char* what) {
    check_extents(extents);
    check_sums(terms, what);
    for (std::size_t t = 0; t < terms.size(); ++t)
        for (bool is_a : {true, false}) operand_range(extents, is_a ? terms[t].a : terms[t].b, is_a, terms[t], t, what);
}

void check_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue) {
    check_terms(extents, terms);
    check_terms(extents, epilogue.singles, "singles term");
    require(epilogue.weights == TripleWeights::spin_orbital || epilogue.weights == TripleWeights::closed_shell,
            "triples energy: there are no weights number {}", static_cast<int>(epilogue.weights));
    for (int n = 0; n < kBlockRank; ++n) {
        const double* energies = epilogue.orbital_energies[n];
        require(energies != nullptr, "triples energy: orbital energies of index {} are null", n);
        require(address(energies) % 8 == 0,
                "triples energy: orbital energies of index {} at address {:#x}, which is no multiple of 8", n,
                address(energies));
    }
    if (epilogue.weights == TripleWeights::closed_shell)
        require(extents[3] == extents[4] && extents[4] == extents[5],
                "triples energy: closed-shell weights need equal virtual ranges, not {}, {}, {}", extents[3],
                extents[4], extents[5]);
}

namespace {

/// All sums of one number of each of three lists, in ascending order, from `low` on. Needs memory for the sums of the
/// two shorter ones.
class SumsInOrder {
  public:
    using Numbers = std::array<std::int64_t, 3>;
    SumsInOrder(std::array<const double*, 3> lists, Numbers extents, double low) {
        std::ranges::sort(order_, std::greater{}, [&](int n) { return extents[n]; });
        const auto [x, y, z] = order_;
        for (std::int64_t a = 0; a < extents[y]; ++a)
            for (std::int64_t b = 0; b < extents[z]; ++b) pairs_.push_back({lists[y][a] + lists[z][b], a, b});
        std::ranges::sort(pairs_, {}, &Pair::sum);
        for (std::int64_t a = 0; a < extents[x]; ++a) {
            const double first = lists[x][a];
            const auto begin = std::ranges::partition_point(pairs_, [&](const Pair& p) { return first + p.sum < low; });
            push({0, first, a, static_cast<std::size_t>(begin - pairs_.begin())});
        }
    }
    bool done() const { return heads_.empty(); }
    double value() const { return heads_.top().sum; }
    /// Which of each list.
    Numbers numbers() const {
        Numbers list{};
        list[order_[0]] = heads_.top().number;
        list[order_[1]] = pairs_[heads_.top().pair].first;
        list[order_[2]] = pairs_[heads_.top().pair].second;
        return list;
    }
    void next() {
        Head head = heads_.top();
        heads_.pop();
        ++head.pair;
        push(head);
    }

  private:
    struct Pair {
        double sum;
        std::int64_t first, second;
    };
    /// The next sum with this number of the longest list.
    struct Head {
        double sum, first;
        std::int64_t number;
        std::size_t pair;
        bool operator>(const Head& other) const { return std::tie(sum, number) > std::tie(other.sum, other.number); }
    };
    void push(Head head) {
        if (head.pair == pairs_.size()) return;
        head.sum = head.first + pairs_[head.pair].sum;
        heads_.push(head);
    }
    std::array<int, 3> order_{0, 1, 2};  // the longest list first
    std::vector<Pair> pairs_;
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

}  // namespace

void check_denominators(const BlockExtents& extents, const std::array<const double*, kBlockRank>& orbital_energies) {
    check_extents(extents);
    // An infinite denominator leaves out what it divides, and the energy looks like one. Padding (1e100 on devices,
    // 1e300 on cores) must not be met either.
    for (int n = 0; n < kBlockRank; ++n) {
        require(orbital_energies[n] != nullptr, "triples energy: orbital energies of index {} are null", n);
        for (std::int64_t x = 0; x < extents[n]; ++x)
            require(std::abs(orbital_energies[n][x]) < 1e90,
                    "triples energy: orbital energy {} of index {} is {}, not within 1e90", x, n,
                    orbital_energies[n][x]);
    }
    // As a rule all virtual sums lie on one side of all occupied ones, which the ends of the ranges show.
    double low[2] = {0, 0}, high[2] = {0, 0}, size = 0;
    for (int n = 0; n < kBlockRank; ++n) {
        const auto [least, most] = std::minmax_element(orbital_energies[n], orbital_energies[n] + extents[n]);
        low[n / 3] += *least;
        high[n / 3] += *most;
        size += std::max(std::abs(*least), std::abs(*most));
    }
    const auto rounding = [](double energies) { return 1e-14 * std::max(10.0, energies); };  // of their sum
    const double from = std::max(low[0], low[1]) - rounding(size), to = std::min(high[0], high[1]) + rounding(size);
    if (from > to) return;
    // Sums that meet are neighbours in ascending order.
    const auto side = [&](int first) {
        return SumsInOrder({orbital_energies[first], orbital_energies[first + 1], orbital_energies[first + 2]},
                           {extents[first], extents[first + 1], extents[first + 2]}, from);
    };
    for (auto occupied = side(0), virtuals = side(3); !occupied.done() && !virtuals.done();) {
        const double difference = occupied.value() - virtuals.value();
        if (std::min(occupied.value(), virtuals.value()) > to) break;
        if (std::abs(difference) <= rounding(size)) {
            const auto [k, j, i] = occupied.numbers();
            const auto [c, b, a] = virtuals.numbers();
            const std::int64_t at[] = {k, j, i, c, b, a};
            double six = 0;
            for (int n = 0; n < kBlockRank; ++n) six += std::abs(orbital_energies[n][at[n]]);
            require(std::abs(difference) > rounding(six),
                    "triples energy: the denominator of k {}, j {}, i {}, c {}, b {}, a {} is {}: orbital energies "
                    "must not meet",
                    k, j, i, c, b, a, std::abs(difference));
        }
        (difference < 0 ? occupied : virtuals).next();
    }
}

double fused_flops(const BlockExtents& extents, std::span<const FusedTerm> terms) {
    double volume = 2;
    for (std::int64_t e : extents) volume *= static_cast<double>(e);
    double sum = 0;
    for (const FusedTerm& t : terms) sum += static_cast<double>(t.sum_extent);
    return volume * sum;
}

std::array<std::int64_t, kBlockRank> packed_strides(const BlockExtents& extents) {
    std::array<std::int64_t, kBlockRank> stride{};
    std::int64_t step = 1;
    for (int n = 0; n < kBlockRank; ++n) {
        require(extents[n] >= 1, "fused block: extent {} of index {} is below 1", extents[n], n);
        stride[n] = step;
        step = checked_multiply(step, extents[n], "fused block");
    }
    return stride;
}

FusedTerm make_term(double factor, std::string_view a_indices, const double* a, std::string_view b_indices,
                    const double* b, const BlockExtents& extents, std::int64_t sum_extent) {
    constexpr std::string_view letters = "kjicba";
    FusedTerm term;
    term.factor = factor;
    term.sum_extent = sum_extent;
    term.a.data = a;
    term.b.data = b;
    unsigned seen = 0;
    char summed[2] = {0, 0};  // the letter that a, and that b, has besides
    for (bool is_a : {true, false}) {
        TermOperand& operand = is_a ? term.a : term.b;
        std::int64_t step = 1;
        for (char letter : is_a ? a_indices : b_indices) {
            const std::size_t n = letters.find(letter);
            if (n == std::string_view::npos) {
                char& other = summed[is_a ? 0 : 1];
                require(letter >= 'a' && letter <= 'z', "make_term: '{}' in '{}' is no lower-case letter", letter,
                        is_a ? a_indices : b_indices);
                require(other == 0, "make_term: '{}' sums over '{}' and over '{}'; one index is possible",
                        is_a ? a_indices : b_indices, other, letter);
                other = letter;
                operand.sum_stride = step;
                step = checked_multiply(step, sum_extent, "fused operand");
                continue;
            }
            require((seen >> n & 1U) == 0, "make_term: index {} is carried twice by '{}' and '{}'", letter, a_indices,
                    b_indices);
            seen |= 1U << n;
            if (is_a) term.a_indices |= 1U << n;
            require(extents[n] >= 1, "make_term: extent {} of index {} is below 1", extents[n], letter);
            operand.stride[n] = step;
            step = checked_multiply(step, extents[n], "fused operand");
        }
    }
    require(seen == 0x3f, "make_term: '{}' and '{}' do not carry all of kjicba", a_indices, b_indices);
    require(summed[0] == summed[1], "make_term: '{}' and '{}' do not sum over the same index", a_indices, b_indices);
    require(summed[0] != 0 || sum_extent == 1, "make_term: a summed extent of {}, but no summed index in '{}' and '{}'",
            sum_extent, a_indices, b_indices);
    return term;
}

const std::array<TermPattern, 9> kOccupiedPatterns{{{-1, "labi", "kjcl"},
                                                    {+1, "labj", "kicl"},
                                                    {-1, "labk", "jicl"},
                                                    {-1, "lbci", "kjal"},
                                                    {+1, "lbcj", "kial"},
                                                    {-1, "lbck", "jial"},
                                                    {+1, "laci", "kjbl"},
                                                    {-1, "lacj", "kibl"},
                                                    {+1, "lack", "jibl"}}};
const std::array<TermPattern, 9> kVirtualPatterns{{{-1, "daij", "dkcb"},
                                                   {-1, "dajk", "dicb"},
                                                   {+1, "daik", "djcb"},
                                                   {+1, "dbij", "dkca"},
                                                   {+1, "dbjk", "dica"},
                                                   {-1, "dbik", "djca"},
                                                   {-1, "dcij", "dkba"},
                                                   {-1, "dcjk", "diba"},
                                                   {+1, "dcik", "djba"}}};
// P(i/jk) P(a/bc) t1[a,i] <jk||bc>, with v[k,j,c,b] = <jk||bc>.
const std::array<TermPattern, 9> kSinglesPatterns{{{+1, "ai", "kjcb"},
                                                   {-1, "aj", "kicb"},
                                                   {+1, "ak", "jicb"},
                                                   {-1, "bi", "kjca"},
                                                   {+1, "bj", "kica"},
                                                   {-1, "bk", "jica"},
                                                   {+1, "ci", "kjba"},
                                                   {-1, "cj", "kiba"},
                                                   {+1, "ck", "jiba"}}};

std::vector<FusedTerm> triples_terms(const BlockExtents& extents, const TriplesOperands& operands) {
    require(operands.occupied_sum >= 0, "triples: a sum over {} occupied orbitals", operands.occupied_sum);
    require(operands.virtual_sum >= 0, "triples: a sum over {} virtual orbitals", operands.virtual_sum);
    std::vector<FusedTerm> terms;
    for (std::size_t n = 0; n < 9 && operands.occupied_sum != 0; ++n) {
        const TermPattern& p = kOccupiedPatterns[n];
        terms.push_back(make_term(p.factor, p.t2, operands.t2_occupied[n], p.v2, operands.v2_occupied[n], extents,
                                  operands.occupied_sum));
    }
    for (std::size_t n = 0; n < 9 && operands.virtual_sum != 0; ++n) {
        const TermPattern& p = kVirtualPatterns[n];
        terms.push_back(make_term(p.factor, p.t2, operands.t2_virtual[n], p.v2, operands.v2_virtual[n], extents,
                                  operands.virtual_sum));
    }
    return terms;
}

std::vector<FusedTerm> singles_terms(const BlockExtents& extents, const SinglesOperands& operands) {
    std::vector<FusedTerm> terms;
    for (std::size_t n = 0; n < 9; ++n) {
        const TermPattern& p = kSinglesPatterns[n];
        terms.push_back(make_term(p.factor, p.t2, operands.t1[n], p.v2, operands.v2[n], extents, 1));
    }
    return terms;
}

void check_triples_tensors(std::int64_t o, std::int64_t v, std::initializer_list<const double*> tensors) {
    require(o >= 1 && v >= 1, "triples: {} occupied and {} virtual orbitals", o, v);
    for (const auto& [name, third, fourth] :
         {std::tuple{"triples: ovvv", v, v}, {"triples: t2", o, v}, {"triples: ooov", o, o}})
        checked_multiply(checked_multiply(checked_multiply(o, v, name), third, name), checked_multiply(fourth, 8, name),
                         name);
    for (const double* p : tensors) require(p != nullptr, "triples: a tensor is a null pointer");
}

void closed_shell_block(const ClosedShellTensors& x, std::array<std::int64_t, 3> begin_kji,
                        std::array<std::int64_t, 3> extent_kji, ClosedShellBlock& block) {
    const std::int64_t o = x.occupied, v = x.virtuals;
    for (const auto* from : x.ovvv_from)
        check_triples_tensors(
            o, v, {x.t1, x.t2, x.ovov, from ? from : x.ovvv, x.ooov, x.occupied_energies, x.virtual_energies});
    for (int n = 0; n < 3; ++n)
        require(begin_kji[n] >= 0 && extent_kji[n] >= 1 && begin_kji[n] <= o - extent_kji[n],
                "closed-shell triples: occupied range {}+{} is not within {}", begin_kji[n], extent_kji[n], o);

    block.extents = {extent_kji[0], extent_kji[1], extent_kji[2], v, v, v};
    block.terms.clear();
    block.singles.clear();
    // Pair n is (occupied index n, virtual index n + 3): (k,c), (j,b), (i,a). Offsets place the occupied ranges.
    auto carry = [&](FusedTerm& term, bool is_a, int index, std::int64_t stride) {
        TermOperand& operand = is_a ? term.a : term.b;
        operand.stride[index] = stride;
        if (is_a) term.a_indices |= 1U << index;
        if (index < 3) operand.data += begin_kji[index] * stride;
    };
    constexpr int permutations[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const auto& [p, q, r] : permutations) {
        FusedTerm d;  // + sum_d (p_o p_v | q_v d) t2[r_o][q_o][r_v][d]
        d.sum_extent = v;
        d.a.data = x.ovvv;
        d.a.sum_stride = 1;
        carry(d, true, p, v * v * v);
        if (x.ovvv_from[p]) d.a.data = x.ovvv_from[p];
        carry(d, true, p + 3, v * v);
        carry(d, true, q + 3, v);
        d.b.data = x.t2;
        d.b.sum_stride = 1;
        carry(d, false, r, o * v * v);
        carry(d, false, q, v * v);
        carry(d, false, r + 3, v);
        FusedTerm m;  // - sum_m (q_o m | p_o p_v) t2[m][r_o][q_v][r_v]
        m.factor = -1;
        m.sum_extent = o;
        m.a.data = x.ooov;
        m.a.sum_stride = o * v;
        carry(m, true, q, o * o * v);
        carry(m, true, p, v);
        carry(m, true, p + 3, 1);
        m.b.data = x.t2;
        m.b.sum_stride = o * v * v;
        carry(m, false, r, v * v);
        carry(m, false, q + 3, v);
        carry(m, false, r + 3, 1);
        block.terms.push_back(d);
        block.terms.push_back(m);
    }
    for (int p = 0; p < 3; ++p) {  // t1[p_o][p_v] (q_o q_v | r_o r_v)
        const int q = (p + 1) % 3, r = (p + 2) % 3;
        FusedTerm s;
        s.a.data = x.t1;
        carry(s, true, p, v);
        carry(s, true, p + 3, 1);
        s.b.data = x.ovov;
        carry(s, false, q, v * o * v);
        carry(s, false, q + 3, o * v);
        carry(s, false, r, v);
        carry(s, false, r + 3, 1);
        block.singles.push_back(s);
        if (!x.fock) continue;
        FusedTerm f;  // F[p_o][p_v] t2[q_o][r_o][q_v][r_v]
        f.a.data = x.fock;
        carry(f, true, p, v);
        carry(f, true, p + 3, 1);
        f.b.data = x.t2;
        carry(f, false, q, o * v * v);
        carry(f, false, r, v * v);
        carry(f, false, q + 3, v);
        carry(f, false, r + 3, 1);
        block.singles.push_back(f);
    }
    block.epilogue = {};
    block.epilogue.weights = TripleWeights::closed_shell;
    for (int n = 0; n < 3; ++n) {
        block.epilogue.orbital_energies[n] = x.occupied_energies + begin_kji[n];
        block.epilogue.orbital_energies[n + 3] = x.virtual_energies;
    }
    block.epilogue.singles = block.singles;
    block.epilogue.scale = 1.0 / 3.0;
}

}  // namespace tessera::kernels
