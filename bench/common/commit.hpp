#pragma once

namespace tessera::bench {

/// The commit this build comes from, as git describes it ("-dirty" with uncommitted changes), or "unknown": what every
/// benchmark writes beside its numbers.
const char* build_commit();

}  // namespace tessera::bench
