#pragma once
// compute-sanitizer looks for device memory that was not freed when the context ends: it is ended after all tests.

#include <gtest/gtest.h>

#include "device/discovery.hpp"
#include "device/memory.hpp"
#include "tessera/storage/memory.hpp"

namespace tessera::leak_check {

class EndContext : public ::testing::Environment {
  public:
    void TearDown() override {
        release_memory();  // pinned blocks are kept for later
        if (device::count() > 0) device::reset_current();
    }
};

inline ::testing::Environment* const end_context = ::testing::AddGlobalTestEnvironment(new EndContext);

}  // namespace tessera::leak_check
