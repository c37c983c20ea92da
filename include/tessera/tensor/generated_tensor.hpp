#pragma once
// A tensor that is never stored: its tiles are made when they are needed.

#include "tessera/base/api.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/storage/tile_source.hpp"

namespace TESSERA_API tessera {

/// The norms of the shape must be upper bounds of the tiles' norms.
template <Scalar T>
struct GeneratedTensor {
    Shape shape;
    TileGenerator<T> make;
    DeviceGenerator on_device = {};  // the same tiles, made by devices in their own memory
};

}  // namespace tessera
