#pragma once

namespace tessera {

/// Called first by release_memory(): for others that keep blocks in a form of their own. Stays for ever.
void on_release_memory(void (*give_back)() noexcept);

}  // namespace tessera
