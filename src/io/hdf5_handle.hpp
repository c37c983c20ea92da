#pragma once
// HDF5's identifiers as owners, and its errors as text instead of a printed stack.

#include <hdf5.h>

#include <string>
#include <utility>

namespace tessera {

/// Any HDF5 identifier: file, group, dataset, attribute, type, space, property list.
class H5Handle {
  public:
    explicit H5Handle(hid_t id = H5I_INVALID_HID) : id_(id) {}
    H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    H5Handle& operator=(H5Handle&& other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    ~H5Handle() { close(); }
    /// False when HDF5 could not finish (a file that cannot be flushed).
    bool close() {
        const hid_t id = std::exchange(id_, H5I_INVALID_HID);
        return id < 0 || close_any(id) >= 0;
    }
    bool ok() const { return id_ >= 0; }
    operator hid_t() const { return id_; }

  private:
    static herr_t close_any(hid_t id) {
        switch (H5Iget_type(id)) {
            case H5I_FILE:
                return H5Fclose(id);
            case H5I_GROUP:
                return H5Gclose(id);
            case H5I_DATASET:
                return H5Dclose(id);
            case H5I_ATTR:
                return H5Aclose(id);
            case H5I_DATATYPE:
                return H5Tclose(id);
            case H5I_DATASPACE:
                return H5Sclose(id);
            case H5I_GENPROP_LST:
                return H5Pclose(id);
            default:
                return -1;
        }
    }
    hid_t id_;
};

/// While it lives, HDF5 prints no errors of this thread; the caller's setting comes back afterwards.
class H5Quiet {
  public:
    H5Quiet() {
        H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
        H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    }
    ~H5Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
    H5Quiet(const H5Quiet&) = delete;
    H5Quiet& operator=(const H5Quiet&) = delete;

  private:
    H5E_auto2_t function_ = nullptr;
    void* data_ = nullptr;
};

/// The innermost description of the error that just happened: HDF5's own reason.
inline std::string h5_reason() {
    std::string reason;
    H5Ewalk2(
        H5E_DEFAULT, H5E_WALK_UPWARD,
        [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
            if (n == 0 && error->desc) *static_cast<std::string*>(out) = error->desc;
            return 0;
        },
        &reason);
    for (char& c : reason)
        if (c == '\n') c = ' ';
    return reason.empty() ? "no reason given" : reason;
}

}  // namespace tessera
