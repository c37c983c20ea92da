// Contractions, plans and batches of C.

#include "object.hpp"
#include "tessera/contract/einsum.hpp"

using namespace tessera;
using namespace tessera::c;

namespace {

std::vector<IndexBounds> bounds_of(int n, const tessera_bounds* bounds) {
    if (n < 0) refuse(std::to_string(n) + " bounds");
    std::vector<IndexBounds> out;
    for (int i = 0; i < n; ++i) {
        const auto& b = given(bounds, "bounds")[i];
        out.push_back({b.label, b.lo, b.hi});
    }
    return out;
}

tessera_options options_or_default(const tessera_options* options) {
    if (options) return *options;
    tessera_options out;
    tessera_options_init(&out);
    return out;
}

Resources resources_of(const tessera_options& options) {
    Resources here;
    here.threads = options.threads;
    here.memory = options.memory;
    if (options.n_devices < 0) refuse(std::to_string(options.n_devices) + " devices");
    for (int i = 0; i < options.n_devices; ++i) here.devices.push_back(given(options.devices, "devices")[i]);
    here.device_memory = options.device_memory;
    return here;
}

ContractOptions contract_options_of(const tessera_options& options) {
    ContractOptions out;
    out.alpha = {options.alpha[0], options.alpha[1]};
    out.beta = {options.beta[0], options.beta[1]};
    out.conjugate_a = options.conjugate_a != 0;
    out.conjugate_b = options.conjugate_b != 0;
    out.filter = options.filter;
    out.bounds = bounds_of(options.n_bounds, options.bounds);
    return out;
}

void tell(tessera_report* out, const ContractReport& report) {
    if (!out) return;
    *out = {report.left_out,      report.flops,      report.plan_seconds,    report.execute_seconds, report.products,
            report.dropped_tiles, report.sent_bytes, report.peak_host_bytes, report.threads,         report.ranks};
}

/// Calls work(a, b) with two tensors of one type.
template <class Work>
int visit(tessera_tensor a, tessera_tensor b, const Work& work) {
    return guarded(
        [&] { std::visit([&]<class T>(Tensor<T>& first) { work(first, of_type<T>(b, "b")); }, any(a, "a")); });
}

int explained(tessera_plan plan, const char** text, std::string tessera_plan_object::*kept,
              std::string (*explain)(const PlannedContraction&)) {
    return guarded([&] {
        auto& p = object(plan, "plan");
        given(text, "text");
        p.*kept = explain(p.planned);
        *text = (p.*kept).c_str();
    });
}

}  // namespace

void tessera_options_init(tessera_options* options) {
    if (!options) return;
    *options = {};
    options->alpha[0] = 1;
}

int tessera_contract(const char* spec, tessera_tensor a, tessera_tensor b, const tessera_options* options,
                     tessera_tensor* c, tessera_report* report) {
    return visit(a, b, [&](const auto& x, const auto& y) {
        given(spec, "spec");
        given(c, "c");
        const auto how = options_or_default(options);
        auto made = contract(spec, x, y, resources_of(how), contract_options_of(how));
        give(c, std::move(made.tensor));
        tell(report, made.report);
    });
}

int tessera_contract_into(const char* spec, tessera_tensor a, tessera_tensor b, tessera_tensor c,
                          const tessera_options* options, tessera_report* report) {
    return visit(a, b, [&]<class T>(const Tensor<T>& x, const Tensor<T>& y) {
        given(spec, "spec");
        const auto how = options_or_default(options);
        tell(report, contract_into<T>(spec, x, y, of_type<T>(c, "c"), resources_of(how), contract_options_of(how)));
    });
}

int tessera_einsum(const char* spec, int n, const tessera_tensor* operands, const tessera_options* options,
                   tessera_tensor* c, tessera_report* report) {
    return guarded([&] {
        given(spec, "spec");
        given(c, "c");
        if (n < 1) refuse(std::to_string(n) + " operands: at least one is needed");
        const auto how = options_or_default(options);
        std::visit(
            [&]<class T>(const Tensor<T>& first) {
                std::vector<ContractOperand<T>> all{first};
                for (int i = 1; i < n; ++i) all.emplace_back(of_type<T>(operands[i], "an operand"));
                auto made = n == 1 ? contract<T>(spec, first, resources_of(how), contract_options_of(how))
                                   : contract<T>(spec, all, resources_of(how), contract_options_of(how));
                give(c, std::move(made.tensor));
                tell(report, made.report);
            },
            any(given(operands, "operands")[0], "an operand"));
    });
}

int tessera_plan_create(const char* spec, tessera_tensor a, tessera_tensor b, const tessera_options* options,
                        tessera_plan* planned) {
    return visit(a, b, [&](const auto& x, const auto& y) {
        given(spec, "spec");
        given(planned, "plan");
        const auto how = options_or_default(options);
        give(planned, std::make_unique<tessera_plan_object>(
                          plan(spec, x, y, resources_of(how), contract_options_of(how)), any(a, "a").index()));
    });
}

int tessera_plan_explain(tessera_plan plan, const char** text) {
    return explained(plan, text, &tessera_plan_object::text, explain);
}
int tessera_plan_explain_json(tessera_plan plan, const char** text) {
    return explained(plan, text, &tessera_plan_object::json, explain_json);
}

int tessera_plan_execute(tessera_plan plan, tessera_tensor a, tessera_tensor b, tessera_tensor* c,
                         tessera_report* report) {
    return visit(a, b, [&](const auto& x, const auto& y) {
        const auto& p = object(plan, "plan");
        given(c, "c");
        if (any(a, "a").index() != p.scalar)
            refuse("the plan is for type " + std::to_string(p.scalar) + ", the operands are of type " +
                   std::to_string(any(a, "a").index()));
        auto made = execute(p.planned, x, y);
        give(c, std::move(made.tensor));
        tell(report, made.report);
    });
}

int tessera_plan_destroy(tessera_plan plan) {
    return guarded([&] {
        if (plan) delete &object(plan, "plan");
    });
}

int tessera_batch_create(const char* spec, tessera_tensor c, const tessera_options* options, tessera_batch* created) {
    return guarded([&] {
        given(spec, "spec");
        given(created, "batch");
        const auto how = options_or_default(options);
        if (how.filter != 0 || how.n_bounds != 0)
            refuse("a batch takes its bounds with each call, and its filter at the end");
        BatchOptions batch;
        batch.alpha = {how.alpha[0], how.alpha[1]};
        batch.beta = {how.beta[0], how.beta[1]};
        batch.conjugate_a = how.conjugate_a != 0;
        batch.conjugate_b = how.conjugate_b != 0;
        batch.retain_sparsity = how.retain_sparsity != 0;
        std::visit(
            [&]<class T>(Tensor<T>& into) {
                give(created,
                     std::make_unique<tessera_batch_object>(ContractionBatch<T>(spec, into, resources_of(how), batch)));
            },
            any(c, "c"));
    });
}

int tessera_batch_add(tessera_batch batch, tessera_tensor a, tessera_tensor b, int n_bounds,
                      const tessera_bounds* bounds) {
    return guarded([&] {
        std::visit(
            [&]<class T>(ContractionBatch<T>& into) {
                into.add(of_type<T>(a, "a"), of_type<T>(b, "b"), bounds_of(n_bounds, bounds));
            },
            object(batch, "batch").any);
    });
}

int tessera_batch_finish(tessera_batch batch, double filter, tessera_report* report) {
    return guarded([&] {
        std::visit(
            [&](auto& into) {
                const BatchReport done = into.finish(filter);
                if (report)
                    *report = {done.left_out,
                               done.flops,
                               done.plan_seconds,
                               done.execute_seconds,
                               done.products,
                               done.dropped_tiles,
                               done.sent_bytes,
                               done.peak_host_bytes,
                               0,
                               0};
            },
            object(batch, "batch").any);
    });
}

int tessera_batch_destroy(tessera_batch batch) {
    return guarded([&] {
        if (batch) delete &object(batch, "batch");
    });
}
