#include "chem/triples_record.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "comm/outcome.hpp"
#include "io/array_file.hpp"

namespace tessera::chem {

namespace {

constexpr char kFormat[] = "tessera-triples";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostPieces = 1 << 26;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string hex(std::uint64_t x) { return fmt::format("{:016x}", x); }

std::uint64_t from_hex(const std::string& text, const std::string& path, const char* what) {
    std::uint64_t x = 0;
    const auto end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, x, 16);
    require(error == std::errc() && at == end, "record {}: its {} is '{}', no hexadecimal number", path, what, text);
    return x;
}

}  // namespace

double known_share(const std::vector<double>& energies) {
    const auto unknown = std::ranges::count_if(energies, [](double e) { return std::isnan(e); });
    return energies.empty() ? 0 : 1 - static_cast<double>(unknown) / static_cast<double>(energies.size());
}

TriplesRecord::TriplesRecord(std::string path, Communicator* ranks, double interval)
    : path_(std::move(path)), ranks_(ranks), interval_(interval) {
    Outcome outcome;
    if (!ranks_ || ranks_->rank() == 0)
        outcome.attempt([&] {
            for (int rank = 0; read(file_of(rank)); ++rank) {
            }
        });
    outcome.share(ranks_ ? *ranks_ : self_communicator(), 0);
    if (!ranks_) return;
    // To all: whether there is one, the CCSD, the key, the energies.
    std::vector<std::uint64_t> all{found_.has_value()};
    if (found_) {
        all.insert(all.end(),
                   {static_cast<std::uint64_t>(found_->iterations), std::bit_cast<std::uint64_t>(found_->energy),
                    std::bit_cast<std::uint64_t>(found_->converge), found_->amplitudes, key_});
        for (const double e : energies_) all.push_back(std::bit_cast<std::uint64_t>(e));
    }
    const auto from = std::as_bytes(std::span(all));
    std::vector<std::byte> bytes(from.begin(), from.end());
    ranks_->broadcast(bytes, 0);
    all.resize(bytes.size() / 8);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    if (all[0] == 0) return;
    const auto number = [&](std::size_t n) { return std::bit_cast<double>(all[n]); };
    found_ = ConvergedCcsd{static_cast<int>(all[1]), number(2), number(3), all[4]};
    key_ = all[5];
    energies_.clear();
    for (std::size_t n = 6; n < all.size(); ++n) energies_.push_back(number(n));
}

std::string TriplesRecord::file_of(int rank) const { return rank == 0 ? path_ : fmt::format("{}.{}", path_, rank); }

/// Adds what the file has to what is known; false where there is none.
bool TriplesRecord::read(const std::string& path) {
    if (std::error_code none; !std::filesystem::exists(path, none)) return false;
    const ArrayFile file(path, "record of (T)");
    require(file.text("format") == kFormat, "record {}: its format is '{}', not '{}'", path, file.text("format"),
            kFormat);
    require(file.integer("version") == kVersion, "record {}: written in format {}; this Tessera reads format {}", path,
            file.integer("version"), kVersion);
    const auto iterations = file.integer("iterations"), pieces = file.integer("pieces");
    require(iterations >= 0 && iterations <= std::numeric_limits<int>::max() && pieces >= 1 && pieces <= kMostPieces,
            "record {}: it is of {} iterations and {} pieces", path, iterations, pieces);
    const ConvergedCcsd ccsd{static_cast<int>(iterations), file.real("ccsd_energy"), file.real("converge"),
                             from_hex(file.text("amplitudes"), path, "checksum of amplitudes")};
    const auto key = from_hex(file.text("key"), path, "key");
    const auto energies = file.reals("energies", {pieces});
    if (!found_) {
        found_ = ccsd;
        key_ = key;
        energies_ = energies;
    } else if (*found_ == ccsd && key_ == key && energies.size() == energies_.size()) {
        for (std::size_t p = 0; p < energies.size(); ++p)
            if (std::isnan(energies_[p])) energies_[p] = energies[p];
    }
    return true;
}

void TriplesRecord::begin(const ConvergedCcsd& of) {
    of_ = of;
    if (found_ == of) return;
    key_ = 0;
    energies_.assign(1, kUnknown);
    write();
}

const std::vector<double>& TriplesRecord::open(std::uint64_t key, std::size_t pieces) {
    if (key_ != key || energies_.size() != pieces) {
        key_ = key;
        energies_.assign(pieces, kUnknown);
    }
    return energies_;
}

void TriplesRecord::done(std::size_t piece, double energy) {
    const std::lock_guard lock(mutex_);
    energies_[piece] = energy;
    if (now_seconds() - written_ >= interval_) write();
}

void TriplesRecord::write() {
    write_arrays(file_of(ranks_ ? ranks_->rank() : 0), kFormat, kVersion,
                 {{"iterations", std::int64_t{of_.iterations}},
                  {"ccsd_energy", of_.energy},
                  {"converge", of_.converge},
                  {"amplitudes", hex(of_.amplitudes)},
                  {"key", hex(key_)},
                  {"pieces", static_cast<std::int64_t>(energies_.size())}},
                 {{"energies", {static_cast<std::int64_t>(energies_.size())}, std::span<const double>(energies_)}});
    written_ = now_seconds();
}

void TriplesRecord::remove() {
    if (ranks_) ranks_->barrier();
    if (ranks_ && ranks_->rank() != 0) return;
    std::error_code none;
    for (int rank = 0; std::filesystem::remove(file_of(rank), none); ++rank) {
    }
}

}  // namespace tessera::chem
