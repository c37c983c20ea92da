#pragma once
// A row of a table of closed-shell orbits, as host and device read it.

namespace tessera::device {

/// Tiles of the first three output indices (of 8, 4 and 4 elements), and what the energy of the first and of the second
/// four elements of the first of them counts.
struct OrbitRow {
    int tile[3];
    float weight[2];
};

}  // namespace tessera::device
