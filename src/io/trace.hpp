#pragma once
// Time lines for people: the Chrome trace format, which chrome://tracing and ui.perfetto.dev show.

#include <string>

#include "tessera/plan/trace.hpp"

namespace tessera {

/// One process a rank; one line for each of its threads, devices and links. The file appears whole or not at all.
void write_chrome_trace(const Trace& trace, const std::string& path);

}  // namespace tessera
