#pragma once
// The algorithms that the inspector knows. A new one is a value of Algorithm with its name, a file here, and a row in
// algorithms.cpp: it is then weighed wherever the others are.

#include <span>

#include "inspect/inspection.hpp"

namespace tessera {

Assignment stationary_b(const Inspection& in);
Assignment outer_product(const Inspection& in);
Assignment split_k(const Inspection& in);
Assignment replicate_b(const Inspection& in);
Assignment split_grid(const Inspection& in);

struct AlgorithmRow {
    Algorithm algorithm;
    Assignment (*assign)(const Inspection&);
    /// The device blocks published with it: on one rank these are what sets it apart. automatic: none of its own.
    Blocks blocks = Blocks::automatic;
    /// On the cores of one rank nothing travels, and algorithms differ in the order of work alone: whether this one's
    /// is the right one, and why. The first row that says so is taken. nullptr: its order is another's too.
    bool (*leads_one_rank)(const Inspection&) = nullptr;
    const char* why_on_one_rank = "";
};

/// In the order in which they are weighed and listed; all but `automatic`.
std::span<const AlgorithmRow> algorithms();
const AlgorithmRow& row_of(Algorithm algorithm);
/// The one that is taken on one rank.
const AlgorithmRow& row_for_one_rank(const Inspection& in);

}  // namespace tessera
