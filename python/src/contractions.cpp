// Contractions of block-sparse tensors: planned, executed, watched.

#include <nanobind/nanobind.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "interrupt.hpp"
#include "module.hpp"
#include "python_array.hpp"
#include "python_tensor.hpp"
#include "settings.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

struct Interrupted {};

/// Shows progress ten times a second, and ends the work on Ctrl-C.
class Watching {
  public:
    Watching(nb::object progress, bool trace) : progress_(std::move(progress)), trace_(trace) {}
    Watch watch() {
        Watch w;
        w.trace = trace_;
        w.on_progress = [this](double done, double total) {
            if (Interrupt::seen()) throw Interrupted{};
            if (progress_.is_none()) return;
            const auto now = std::chrono::steady_clock::now();
            if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
            last_ = now;
            const nb::gil_scoped_acquire python;
            progress_(done, total);
        };
        return w;
    }

  private:
    nb::object progress_;
    bool trace_;
    std::chrono::steady_clock::time_point last_{};
    Interrupt interrupt_;
};

/// work(watch) without the GIL; a KeyboardInterrupt where Ctrl-C ended it.
template <class Work>
auto run(nb::object progress, bool trace, Work&& work) {
    try {
        Watching watching(std::move(progress), trace);
        const Watch watch = watching.watch();
        const nb::gil_scoped_release others_run;
        return work(watch);
    } catch (const Interrupted&) {
        if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
}

/// An operand that Python has given: a tensor or a generated one, kept while the work goes on.
class Given {
  public:
    Given(nb::handle object, std::string name) : name_(std::move(name)) {
        if (nb::isinstance<PythonTensor>(object))
            stored_ = nb::cast<const PythonTensor&>(object).get();
        else if (nb::isinstance<PythonGenerated>(object))
            made_ = nb::cast<const PythonGenerated&>(object).get();
        else
            throw UserError(name_ + " is no tensor");
    }
    std::size_t type() const { return stored_ ? stored_->index() : made_->index(); }
    template <Scalar T>
    ContractOperand<T> as() const {
        if (stored_) {
            if (const auto* t = std::get_if<Tensor<T>>(&*stored_)) return *t;
        } else if (const auto* g = std::get_if<GeneratedTensor<T>>(&*made_)) {
            return *g;
        }
        throw UserError(name_ + " has another dtype than the first operand; astype() converts a tensor");
    }
    const Stored* stored() const { return stored_.get(); }

  private:
    std::string name_;
    std::shared_ptr<const Stored> stored_;
    std::shared_ptr<const Made> made_;
};

/// Calls f(T{}) with the type that an operand has.
template <class F>
decltype(auto) with_type_of(const Given& x, F&& f) {
    switch (x.type()) {
        case 0:
            return f(float{});
        case 1:
            return f(double{});
        case 2:
            return f(std::complex<float>{});
        default:
            return f(std::complex<double>{});
    }
}

/// Adds to a tensor: add(C). Meanwhile nobody else has it; afterwards it is back, whatever happened.
template <Scalar T, class Add>
ContractReport add_to(PythonTensor& out, Add&& add) {
    if (!std::holds_alternative<Tensor<T>>(*out.get())) throw UserError("out has another dtype than A");
    auto c = out.take();
    try {
        // A tile that Python looks at stays what it is: a copy is added to.
        if (c.use_count() > 1) c = std::make_shared<Stored>(*c);
        auto report = add(std::get<Tensor<T>>(*c));
        out.put_back(std::move(c));
        return report;
    } catch (...) {
        out.put_back(std::move(c));
        throw;
    }
}

nb::tuple contract_pair(const std::string& spec, nb::object a_in, nb::object b_in, nb::object out,
                        const Settings& settings, nb::object progress) {
    const Given a(a_in, "A"), b(b_in, "B");
    return with_type_of(a, [&](auto type) {
        using T = decltype(type);
        const auto x = a.as<T>(), y = b.as<T>();
        if (!out.is_none()) {
            auto report = add_to<T>(nb::cast<PythonTensor&>(out), [&](Tensor<T>& c) {
                return run(std::move(progress), settings.trace, [&](const Watch& watch) {
                    return contract_into<T>(spec, x, y, c, settings.here(), settings.what(), settings.how(), watch);
                });
            });
            return nb::make_tuple(out, std::move(report));
        }
        auto done = run(std::move(progress), settings.trace, [&](const Watch& watch) {
            return contract<T>(spec, x, y, settings.here(), settings.what(), settings.how(), watch);
        });
        return nb::make_tuple(PythonTensor(std::move(done.tensor)), std::move(done.report));
    });
}

nb::tuple contract_single(const std::string& spec, nb::object a_in, nb::object out, const Settings& settings) {
    const Given a(a_in, "A");
    if (!a.stored()) throw UserError("A is made on demand; a contraction of one operand needs a stored one");
    return std::visit(
        [&]<Scalar T>(const Tensor<T>& x) {
            if (!out.is_none()) {
                auto report = add_to<T>(nb::cast<PythonTensor&>(out), [&](Tensor<T>& c) {
                    const nb::gil_scoped_release others_run;
                    return contract_into<T>(spec, x, c, settings.here(), settings.what());
                });
                return nb::make_tuple(out, std::move(report));
            }
            std::optional<Contraction<T>> done;
            {
                const nb::gil_scoped_release others_run;
                done = contract<T>(spec, x, settings.here(), settings.what());
            }
            return nb::make_tuple(PythonTensor(std::move(done->tensor)), std::move(done->report));
        },
        *a.stored());
}

struct PythonPlan {
    PlannedContraction planned;
    std::size_t type;
    bool adds;
};

PythonPlan plan_pair(const std::string& spec, nb::object a_in, nb::object b_in, nb::object out,
                     const Settings& settings) {
    const Given a(a_in, "A"), b(b_in, "B");
    return with_type_of(a, [&](auto type) {
        using T = decltype(type);
        const auto x = a.as<T>(), y = b.as<T>();
        if (out.is_none()) {
            const nb::gil_scoped_release others_run;
            return PythonPlan{plan<T>(spec, x, y, settings.here(), settings.what(), settings.how()), a.type(), false};
        }
        const auto c = nb::cast<const PythonTensor&>(out).get();
        const auto* old = std::get_if<Tensor<T>>(&*c);
        if (!old) throw UserError("out has another dtype than A");
        const nb::gil_scoped_release others_run;
        return PythonPlan{plan_into<T>(spec, x, y, *old, settings.here(), settings.what(), settings.how()), a.type(),
                          true};
    });
}

/// The same operands and spec on a machine that is described.
PythonPlan plan_on(const PythonPlan& p, const std::string& machine, int ranks) {
    const nb::gil_scoped_release others_run;
    MachineModel model = read_machine(machine).machine;
    if (ranks < 0) throw UserError("ranks " + std::to_string(ranks) + " are negative");
    if (ranks > 0) model.ranks = ranks;
    const Plan& known = p.planned.plan();
    ContractOptions options;
    options.alpha = known.alpha_magnitude;
    options.filter = known.filter;
    const auto planned = with_scalar(known.scalar, [&](auto type) {
        return plan_for<decltype(type)>(model, known.spec, {known.a, known.source_a}, {known.b, known.source_b}, {},
                                        options);
    });
    return {planned, p.type, p.adds};
}

nb::tuple execute_plan(const PythonPlan& p, nb::object a_in, nb::object b_in, nb::object out, nb::object progress,
                       bool trace) {
    const Given a(a_in, "A"), b(b_in, "B");
    if (a.type() != p.type) throw UserError("A has another dtype than the plan is for");
    if (out.is_none() == p.adds)
        throw UserError(p.adds ? "the plan adds to a tensor: give it as out" : "the plan does not add to a tensor");
    return with_type_of(a, [&](auto type) {
        using T = decltype(type);
        const auto x = a.as<T>(), y = b.as<T>();
        if (p.adds) {
            auto report = add_to<T>(nb::cast<PythonTensor&>(out), [&](Tensor<T>& c) {
                return run(std::move(progress), trace,
                           [&](const Watch& watch) { return execute_into<T>(p.planned, x, y, c, watch); });
            });
            return nb::make_tuple(out, std::move(report));
        }
        auto done = run(std::move(progress), trace, [&](const Watch& w) { return execute<T>(p.planned, x, y, w); });
        return nb::make_tuple(PythonTensor(std::move(done.tensor)), std::move(done.report));
    });
}

// Einsums of any number of operands.

/// Their C++ side, and the type of the first.
struct GivenList {
    std::vector<Given> all;
    explicit GivenList(const nb::list& objects) {
        for (std::size_t i = 0; i < objects.size(); ++i) all.emplace_back(objects[i], "operand " + std::to_string(i));
        if (all.empty()) throw UserError("there are no operands");
    }
    template <Scalar T>
    std::vector<ContractOperand<T>> as() const {
        std::vector<ContractOperand<T>> out;
        for (const auto& x : all) out.push_back(x.as<T>());
        return out;
    }
};

nb::tuple contract_list(const std::string& spec, const nb::list& objects, nb::object out, const Settings& settings,
                        nb::object progress) {
    const GivenList given(objects);
    return with_type_of(given.all[0], [&](auto type) {
        using T = decltype(type);
        const auto operands = given.as<T>();
        if (!out.is_none()) {
            auto report = add_to<T>(nb::cast<PythonTensor&>(out), [&](Tensor<T>& c) {
                return run(std::move(progress), settings.trace, [&](const Watch& watch) {
                    return contract_into<T>(spec, operands, c, settings.here(), settings.what(), settings.how(), watch);
                });
            });
            return nb::make_tuple(out, std::move(report));
        }
        auto done = run(std::move(progress), settings.trace, [&](const Watch& watch) {
            return contract<T>(spec, operands, settings.here(), settings.what(), settings.how(), watch);
        });
        return nb::make_tuple(PythonTensor(std::move(done.tensor)), std::move(done.report));
    });
}

struct PythonEinsumPlan {
    PlannedEinsum planned;
    std::size_t type;
    bool adds;
};

PythonEinsumPlan plan_list(const std::string& spec, const nb::list& objects, nb::object out, const Settings& settings) {
    const GivenList given(objects);
    return with_type_of(given.all[0], [&](auto type) {
        using T = decltype(type);
        const auto operands = given.as<T>();
        if (out.is_none()) {
            const nb::gil_scoped_release others_run;
            return PythonEinsumPlan{plan<T>(spec, operands, settings.here(), settings.what(), settings.how()),
                                    given.all[0].type(), false};
        }
        const auto c = nb::cast<const PythonTensor&>(out).get();
        const auto* old = std::get_if<Tensor<T>>(&*c);
        if (!old) throw UserError("out has another dtype than operand 0");
        const nb::gil_scoped_release others_run;
        return PythonEinsumPlan{plan_into<T>(spec, operands, *old, settings.here(), settings.what(), settings.how()),
                                given.all[0].type(), true};
    });
}

nb::tuple execute_list(const PythonEinsumPlan& p, const nb::list& objects, nb::object out, nb::object progress,
                       bool trace) {
    const GivenList given(objects);
    if (given.all[0].type() != p.type) throw UserError("operand 0 has another dtype than the plan is for");
    if (out.is_none() == p.adds)
        throw UserError(p.adds ? "the plan adds to a tensor: give it as out" : "the plan does not add to a tensor");
    return with_type_of(given.all[0], [&](auto type) {
        using T = decltype(type);
        const auto operands = given.as<T>();
        if (p.adds) {
            auto report = add_to<T>(nb::cast<PythonTensor&>(out), [&](Tensor<T>& c) {
                return run(std::move(progress), trace,
                           [&](const Watch& watch) { return execute_into<T>(p.planned, operands, c, watch); });
            });
            return nb::make_tuple(out, std::move(report));
        }
        auto done = run(std::move(progress), trace, [&](const Watch& w) { return execute<T>(p.planned, operands, w); });
        return nb::make_tuple(PythonTensor(std::move(done.tensor)), std::move(done.report));
    });
}

std::int64_t products_of(const PlannedEinsum& p) {
    std::int64_t n = 0;
    for (const auto& step : p.steps()) n += step.counts().products;
    return n;
}

/// What a trace holds, as lists for pictures: lanes (rank, kind, index), and for each span (lane, what, start, end).
nb::object lanes_of(const Trace& trace) {
    static constexpr const char* kNames[] = {"core", "compute", "load", "store", "copy", "send", "receive", "make"};
    nb::list lanes;
    for (const auto& lane : trace.lanes)
        lanes.append(nb::make_tuple(lane.rank, kNames[static_cast<std::size_t>(lane.kind)], lane.index));
    return lanes;
}
nb::object spans_of(const Trace& trace) {
    nb::list spans;
    for (const auto& span : trace.spans)
        spans.append(nb::make_tuple(span.lane, name(span.kind), span.start, span.end, span.amount));
    return spans;
}

/// tessera._plot.NAME(self, axes), tessera._picture.NAME(self)
auto plotted(const char* name) {
    return [name](nb::object self, nb::object axes) {
        return nb::module_::import_("tessera._plot").attr(name)(std::move(self), std::move(axes));
    };
}
auto shown(const char* name) {
    return [name](nb::object self) { return nb::module_::import_("tessera._picture").attr(name)(std::move(self)); };
}

}  // namespace

void bind_contractions(nb::module_& module) {
    nb::class_<Settings>(module, "Settings")
        .def(nb::init<>())
        .def_rw("alpha", &Settings::alpha)
        .def_rw("beta", &Settings::beta)
        .def_rw("conjugate", &Settings::conjugate)
        .def_rw("symmetry", &Settings::symmetry)
        .def_rw("fold", &Settings::fold)
        .def_rw("trace", &Settings::trace)
        .def_rw("filter", &Settings::filter)
        .def_rw("threads", &Settings::threads)
        .def_rw("memory", &Settings::memory)
        .def_rw("device_memory", &Settings::device_memory)
        .def_rw("devices", &Settings::devices)
        .def_rw("machine", &Settings::machine)
        .def_rw("algorithm", &Settings::algorithm)
        .def_rw("blocks", &Settings::blocks)
        .def_rw("ranks", &Settings::ranks, nb::arg().none());
    nb::class_<Trace>(module, "Trace", "Who did what when, in seconds.")
        .def_prop_ro("lanes", &lanes_of, "(rank, kind, index) of each line: a core, what a device computes, a link.",
                     nb::sig("def lanes(self) -> list[tuple[int, str, int]]"))
        .def_prop_ro("spans", &spans_of, "(lane, what, start, end, flops or bytes) of each piece of work.",
                     nb::sig("def spans(self) -> list[tuple[int, str, float, float, float]]"))
        .def("__len__", [](const Trace& t) { return t.spans.size(); })
        .def("plot", plotted("plot_trace"), "axes"_a.none() = nb::none(),
             "A time line, drawn by matplotlib into these axes or new ones, which are returned.");
    nb::class_<ContractReport>(module, "Report", "What a contraction did and took.")
        .def_ro("left_out", &ContractReport::left_out, "No more than this (Frobenius norm) was left out by the filter.")
        .def_ro("flops", &ContractReport::flops)
        .def_ro("products", &ContractReport::products, "Products of two tiles.")
        .def_ro("made_tiles", &ContractReport::made_tiles, "Tiles that were made on demand.")
        .def_ro("dropped_tiles", &ContractReport::dropped_tiles, "Result tiles that the filter dropped.")
        .def_ro("bytes_a", &ContractReport::bytes_a)
        .def_ro("bytes_b", &ContractReport::bytes_b, "Of all operands but the first.")
        .def_ro("bytes_c", &ContractReport::bytes_c)
        .def_ro("peak_host_bytes", &ContractReport::peak_host_bytes)
        .def_ro("plan_seconds", &ContractReport::plan_seconds, "0 where a plan was kept from before.")
        .def_ro("execute_seconds", &ContractReport::execute_seconds)
        .def_ro("algorithm", &ContractReport::algorithm)
        .def_ro("threads", &ContractReport::threads)
        .def_ro("ranks", &ContractReport::ranks)
        .def_ro("sent_bytes", &ContractReport::sent_bytes, "Between ranks, all of them.")
        .def_ro("overlap", &ContractReport::overlap, "Share of the time of messages that work hid.")
        .def_ro("devices", &ContractReport::devices)
        .def_ro("peak_device_bytes", &ContractReport::peak_device_bytes)
        .def_ro("loaded_bytes", &ContractReport::loaded_bytes, "From the host to devices.")
        .def_ro("stored_bytes", &ContractReport::stored_bytes, "From devices to the host.")
        .def_ro("trace", &ContractReport::trace, "What devices and links did when, where trace=True asked for it.")
        .def_ro("steps", &ContractReport::steps, "Of an einsum of many operands: a report for each two.")
        .def("plot", plotted("plot_report"), "axes"_a.none() = nb::none(),
             "A time line: of the trace where there is one, else of the steps. It needs matplotlib.")
        .def("_repr_html_", shown("report_html"));
    nb::class_<Simulation>(module, "Simulation", "How long a plan takes on a machine that is described.")
        .def_ro("seconds", &Simulation::seconds)
        .def_ro("tflops", &Simulation::tflops)
        .def_ro("tflops_per_device", &Simulation::tflops_per_device)
        .def_ro("overlap", &Simulation::overlap,
                "Share of the time with transfers under way in which a rank worked too.")
        .def_ro("rank_seconds", &Simulation::rank_seconds, "When each rank's last step is over.")
        .def_ro("trace", &Simulation::trace, "The time line, where trace=True asked for it.")
        .def("plot", plotted("plot_simulation"), "axes"_a.none() = nb::none(),
             "A time line: of the trace where there is one, else of the ranks. It needs matplotlib.")
        .def("_repr_html_", shown("simulation_html"));
    nb::class_<PythonPlan>(module, "Plan")
        .def_prop_ro("spec", [](const PythonPlan& p) { return p.planned.spec(); })
        .def_prop_ro("flops", [](const PythonPlan& p) { return p.planned.counts().flops; })
        .def_prop_ro("products", [](const PythonPlan& p) { return p.planned.counts().products; })
        .def_prop_ro("seconds", [](const PythonPlan& p) { return p.planned.seconds(); })
        .def_prop_ro("adds", [](const PythonPlan& p) { return p.adds; })
        .def("explain", [](const PythonPlan& p) { return explain(p.planned); })
        .def("explain_json", [](const PythonPlan& p) { return explain_json(p.planned); })
        .def(
            "simulate",
            [](const PythonPlan& p, bool trace) {
                const nb::gil_scoped_release others_run;
                return simulate(p.planned, p.planned.machine(), {.trace = trace});
            },
            "trace"_a)
        .def("on", &plan_on, "machine"_a, "ranks"_a)
        .def("execute", &execute_plan, "a"_a, "b"_a, "out"_a.none(), "progress"_a.none(), "trace"_a = false);
    nb::class_<PythonEinsumPlan>(module, "EinsumPlan")
        .def_prop_ro("spec", [](const PythonEinsumPlan& p) { return p.planned.spec(); })
        .def_prop_ro("tree", [](const PythonEinsumPlan& p) { return p.planned.tree(); })
        .def_prop_ro("flops", [](const PythonEinsumPlan& p) { return p.planned.flops(); })
        .def_prop_ro("products", [](const PythonEinsumPlan& p) { return products_of(p.planned); })
        .def_prop_ro("steps",
                     [](const PythonEinsumPlan& p) {
                         std::vector<PythonPlan> steps;
                         for (const auto& step : p.planned.steps()) steps.push_back({step, p.type, false});
                         return steps;
                     })
        .def("explain", [](const PythonEinsumPlan& p) { return explain(p.planned); })
        .def("explain_json", [](const PythonEinsumPlan& p) { return explain_json(p.planned); })
        .def("execute", &execute_list, "operands"_a, "out"_a.none(), "progress"_a.none(), "trace"_a = false);
    module.def("contract_list", &contract_list, "spec"_a, "operands"_a, "out"_a.none(), "settings"_a,
               "progress"_a.none());
    module.def("plan_list", &plan_list, "spec"_a, "operands"_a, "out"_a.none(), "settings"_a);
    module.def("contract_pair", &contract_pair, "spec"_a, "a"_a, "b"_a, "out"_a.none(), "settings"_a,
               "progress"_a.none());
    module.def("contract_single", &contract_single, "spec"_a, "a"_a, "out"_a.none(), "settings"_a);
    module.def("plan_pair", &plan_pair, "spec"_a, "a"_a, "b"_a, "out"_a.none(), "settings"_a);
    module.def("parse_bytes", &parse_bytes, "text"_a);
    module.def("format_bytes", &format_bytes, "bytes"_a);
}

}  // namespace tessera::python
