#include "chem/amplitude_file.hpp"

#include "storage/dry_run.hpp"

namespace tessera::chem {

/// Room for one vector in the file, for others when nobody holds it.
class AmplitudeFile::Place {
  public:
    explicit Place(AmplitudeFile& file) : file_(file), number_(file.places_) {
        if (file_.free_.empty()) {
            ++file_.places_;
        } else {
            number_ = file_.free_.back();
            file_.free_.pop_back();
        }
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { file_.free_.push_back(number_); }
    std::int64_t number() const { return number_; }

  private:
    AmplitudeFile& file_;
    std::int64_t number_;
};

AmplitudeFile::AmplitudeFile(const std::string& folder, int threads) : threads_(threads) {
    if (DryRun::current()) return;
    out_ = std::make_unique<AtomicFile>(folder + "/tessera-amplitudes");
    in_ = std::make_unique<InputFile>(out_->working_path());
}

AmplitudeFile::~AmplitudeFile() = default;

void AmplitudeFile::write(const RealTensor& x, std::int64_t at) {
    x.for_each_tile([&](const TileInfo&, std::span<const double> tile) {
        out_->write_at(at, tile.data(), static_cast<std::int64_t>(tile.size_bytes()));
        at += static_cast<std::int64_t>(tile.size_bytes());
    });
}

RealTensor AmplitudeFile::read(const Shape& shape, std::int64_t at) const {
    std::vector<std::int64_t> begin;  // of each tile
    for (std::int64_t slot = 0; slot < shape.tile_count(); ++slot) {
        begin.push_back(at);
        at += 8 * shape.grid().tile_elements(shape.tile(slot));
    }
    return RealTensor::generate(
        shape,
        [&](const TileInfo& info, std::span<double> out) {
            const auto slot = shape.find(shape.grid().ordinal(info.coordinates));
            in_->read_at(begin[*slot], out.data(), static_cast<std::int64_t>(out.size_bytes()));
        },
        threads_);
}

Diis<Amplitudes>::Kept AmplitudeFile::keep(const Amplitudes& x) {
    const Shape t1 = x.t1.shape(), t2 = x.t2.shape();
    const auto singles = 8 * t1.grid().element_total(), bytes = singles + 8 * t2.grid().element_total();
    const auto place = std::make_shared<const Place>(*this);
    const auto at = place->number() * bytes;
    if (out_) {
        write(x.t1, at);
        write(x.t2, at + singles);
    }
    return [this, place, t1, t2, at, singles] {
        return std::make_shared<const Amplitudes>(Amplitudes{read(t1, at), read(t2, at + singles)});
    };
}

}  // namespace tessera::chem
