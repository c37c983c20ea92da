#pragma once
// Tensors as Python holds them: of any of the four element types.

#include <nanobind/nanobind.h>

#include <complex>
#include <memory>
#include <variant>

#include "tessera/base/error.hpp"
#include "tessera/tensor/generated_tensor.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::python {

namespace nb = nanobind;

using Stored = std::variant<Tensor<float>, Tensor<double>, Tensor<std::complex<float>>, Tensor<std::complex<double>>>;
using Made = std::variant<GeneratedTensor<float>, GeneratedTensor<double>, GeneratedTensor<std::complex<float>>,
                          GeneratedTensor<std::complex<double>>>;

/// Shared by the views of its tiles that Python holds. Whoever adds to a tensor takes it out meanwhile.
class PythonTensor {
  public:
    explicit PythonTensor(Stored tensor) : stored_(std::make_shared<Stored>(std::move(tensor))) {}
    std::shared_ptr<const Stored> get() const { return required(); }
    /// For writing: the only one who has it; a copy where a tile of it is still looked at.
    std::shared_ptr<Stored> take() {
        required();
        auto taken = std::move(stored_);
        stored_ = nullptr;
        return taken;
    }
    /// More than one: tiles are stored by their owners, and calls are collective.
    Communicator& ranks() const {
        return std::visit([](const auto& t) -> Communicator& { return t.communicator(); }, *required());
    }
    void put_back(std::shared_ptr<Stored> tensor) { stored_ = std::move(tensor); }

  private:
    const std::shared_ptr<Stored>& required() const {
        if (!stored_) throw UserError("the tensor is being added to by another thread");
        return stored_;
    }
    std::shared_ptr<Stored> stored_;
};

/// Its tiles are made by a Python function.
class PythonGenerated {
  public:
    explicit PythonGenerated(Made made) : made_(std::make_shared<Made>(std::move(made))) {}
    std::shared_ptr<const Made> get() const { return made_; }

  private:
    std::shared_ptr<const Made> made_;
};

}  // namespace tessera::python
