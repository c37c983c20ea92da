#include "bench_contractions.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstdio>
#include <map>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "gemm_rate.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/contract/arrays.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/index/contraction_spec.hpp"

namespace tessera::bench {

namespace {

using Json = nlohmann::json;

struct Case {
    const char *family, *spec, *extents;
};

// What is contracted in the literature: tensor times matrix (machine learning, Tucker), the four-index transform, CCSD
// and its (T), density fitting, sums into small results, products with a small sum, batches.
constexpr std::array kCases = {
    Case{"matrix", "ik,kj->ij", "i=1000,j=1000,k=1000"},
    Case{"matrix", "ki,kj->ij", "i=600,j=600,k=2000"},
    Case{"matrix", "ik,jk->ji", "i=1500,j=300,k=700"},
    Case{"ttm", "bda,dc->abc", "a=160,b=160,c=160,d=160"},
    Case{"ttm", "dca,bd->abc", "a=160,b=160,c=160,d=160"},
    Case{"ttm", "dbea,ec->abcd", "a=40,b=40,c=48,d=40,e=48"},
    Case{"ttm", "deca,be->abcd", "a=40,b=48,c=40,d=40,e=48"},
    Case{"ttm", "ebad,ce->abcd", "a=40,b=40,c=48,d=40,e=48"},
    Case{"ttm", "efbad,cf->abcde", "a=20,b=20,c=24,d=20,e=20,f=24"},
    Case{"ttm", "ecbfa,fd->abcde", "a=20,b=20,c=20,d=24,e=20,f=24"},
    Case{"ttm", "efcad,bf->abcde", "a=20,b=24,c=20,d=20,e=20,f=24"},
    Case{"ttm", "ijk,kl->ijl", "i=300,j=300,k=32,l=32"},
    Case{"ttm", "ijk,il->ljk", "i=32,j=300,k=300,l=32"},
    Case{"transform", "pqrs,pi->iqrs", "p=50,q=50,r=48,s=48,i=40"},
    Case{"transform", "pqrs,qi->pirs", "p=50,q=50,r=48,s=48,i=40"},
    Case{"transform", "pqrs,ri->pqis", "p=48,q=48,r=50,s=50,i=40"},
    Case{"transform", "pqrs,si->pqri", "p=48,q=48,r=50,s=50,i=40"},
    Case{"transform", "Lpq,qi->Lpi", "L=300,p=120,q=120,i=30"},
    Case{"ccsd", "acd,db->abc", "a=200,b=160,c=150,d=160"},
    Case{"ccsd", "ad,bdc->abc", "a=200,b=160,c=150,d=160"},
    Case{"ccsd", "adc,bd->abc", "a=200,b=160,c=150,d=160"},
    Case{"ccsd", "adec,ebd->abc", "a=90,b=90,c=90,d=60,e=10"},
    Case{"ccsd", "aebf,dfce->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "aebf,fdec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "aecf,bfde->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "aedf,fbec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "aefb,fdce->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "eafc,bfde->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "eafd,fbec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    Case{"ccsd", "ijcd,cdab->ijab", "i=14,j=14,a=50,b=50,c=50,d=50"},
    Case{"ccsd", "klij,klab->ijab", "i=14,j=14,k=14,l=14,a=80,b=80"},
    Case{"ccsd", "ikac,kcjb->ijab", "i=14,j=14,k=14,a=60,b=60,c=60"},
    Case{"triples", "dega,gfbc->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    Case{"triples", "degb,gfac->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    Case{"triples", "dfgc,geab->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    Case{"triples", "efga,gdbc->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    Case{"triples", "efgc,gdab->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    Case{"small", "acd,dbc->ab", "a=60,b=60,c=300,d=300"},
    Case{"small", "cad,dcb->ab", "a=60,b=60,c=300,d=300"},
    Case{"small", "abcd,ebcd->ae", "a=40,b=40,c=50,d=50,e=40"},
    Case{"small", "abci,abcj->ij", "a=50,b=50,c=40,i=40,j=40"},
    Case{"small", "iabc,jbca->ij", "i=24,j=24,a=50,b=50,c=50"},
    Case{"small", "ijab,ijab->", "i=30,j=30,a=70,b=70"},
    Case{"fitting", "Pij,Pkl->ijkl", "P=200,i=40,j=40,k=50,l=50"},
    Case{"fitting", "ijP,klP->ikjl", "P=200,i=40,j=40,k=50,l=50"},
    Case{"fitting", "Pij,Pjk->ik", "P=300,i=120,j=120,k=120"},
    Case{"outer", "ai,bj->aibj", "a=60,i=30,b=60,j=30"},
    Case{"outer", "ai,bj->abij", "a=60,i=30,b=60,j=30"},
    Case{"outer", "abi,icd->abcd", "a=48,b=48,c=48,d=48,i=6"},
    Case{"batch", "bij,bjk->bik", "b=200,i=120,j=120,k=120"},
    Case{"batch", "ijb,jkb->ikb", "b=64,i=90,j=90,k=90"},
    Case{"batch", "xab,xbc->xac", "x=4000,a=16,b=16,c=16"},
};

using Extents = std::map<char, std::int64_t>;

Extents parse(const char* text) {
    Extents out;
    for (const char* at = text; *at;) {
        const char label = *at;
        char* end = nullptr;
        out[label] = std::strtoll(at + 2, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return out;
}

IndexVector extents_of(const std::string& labels, const Extents& all) {
    IndexVector out;
    for (const char l : labels) out.push_back(all.at(l));
    return out;
}

/// A process that answers a line with a line.
class Peer {
  public:
    Peer(const std::string& python, const std::string& script, int threads) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw MachineError("cannot make pipes for the peers");
        child_ = fork();
        if (child_ < 0) throw MachineError("cannot start the peers");
        if (child_ == 0) {
            ::dup2(to[0], 0);
            ::dup2(from[1], 1);
            for (const int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
            ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
            ::setenv("PEER_ISA", std::string(name(detected_isa())).c_str(), 1);
            ::execlp(python.c_str(), python.c_str(), script.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        in_ = ::fdopen(to[1], "w");
        out_ = ::fdopen(from[0], "r");
        std::signal(SIGPIPE, SIG_IGN);
    }
    ~Peer() {
        std::fclose(in_);
        std::fclose(out_);
        ::waitpid(child_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    /// Null where it has ended.
    Json answer() {
        std::string line;
        for (int c; (c = std::fgetc(out_)) != EOF && c != '\n';) line += static_cast<char>(c);
        return Json::parse(line, nullptr, false).is_discarded() ? Json() : Json::parse(line);
    }
    Json ask(const Json& question) {
        std::fprintf(in_, "%s\n", question.dump().c_str());
        std::fflush(in_);
        return answer();
    }

  private:
    pid_t child_;
    FILE *in_, *out_;
};

/// Seconds of one call, of as many as take about so long.
template <class Work>
double timed(double wanted, Work&& work) {
    double start = now_seconds();
    work();
    const double once = std::max(now_seconds() - start, 1e-7);
    const int calls = std::max(1, static_cast<int>(wanted / once));
    start = now_seconds();
    for (int i = 0; i < calls; ++i) work();
    return (now_seconds() - start) / calls;
}

double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x.size() % 2 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
}

template <Scalar T>
Json bench_case(const Case& c, const ContractionsOptions& o, Peer* peer, const std::map<std::string, std::string>& ways,
                double gemm, double copy) {
    const auto all = parse(c.extents);
    const ContractionSpec spec(c.spec);
    const auto ea = extents_of(spec.a(), all), eb = extents_of(spec.b(), all), ec = extents_of(spec.c(), all);
    Array<T> a(ea), b(eb), into(ec);
    hash_fill<T>(1, 1.0, a.elements());
    hash_fill<T>(2, 1.0, b.elements());
    std::fill(into.elements().begin(), into.elements().end(), T(0));
    const Resources here{.threads = o.threads};
    double flops = kFlopsPerMultiplyAdd<T>;
    for (const auto& [label, n] : all) flops *= static_cast<double>(n);
    const double bytes = sizeof(T) * static_cast<double>(ea.product() + eb.product() + ec.product());
    Json one = {{"family", c.family}, {"spec", c.spec}, {"extents", c.extents}, {"flops", flops}, {"bytes", bytes}};
    if (peer)
        peer->ask({{"spec", c.spec},
                   {"extents",
                    [&] {
                        Json e;
                        for (const auto& [label, n] : all) e[std::string(1, label)] = n;
                        return e;
                    }()},
                   {"type", o.type}});
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < o.rounds; ++round) {
        seconds["into"].push_back(
            timed(o.seconds, [&] { contract_into(c.spec, a.view(), b.view(), into.view(), here); }));
        seconds["fresh"].push_back(timed(o.seconds, [&] { contract(c.spec, a.view(), b.view(), here); }));
        for (const auto& [way, name] : ways)
            for (const bool given : {true, false}) {
                if (given && way == "torch") continue;  // it has no such call
                const Json told = peer->ask({{"time", way}, {"seconds", o.seconds}, {"into", given}});
                if (told.contains("seconds")) seconds[way + (given ? "" : "_fresh")].push_back(told["seconds"]);
            }
    }
    for (const auto& [way, times] : seconds)
        if (!times.empty()) one["gflops"][way] = flops / median(times) * 1e-9;
    const double floor = std::max(gemm > 0 ? flops / (gemm * 1e9) : 0, bytes / (copy * 1e9));
    one["floor_seconds"] = floor;
    one["of_floor"] = floor / median(seconds["into"]);
    return one;
}

Json run_case(const Case& c, const ContractionsOptions& o, Peer* peer, const std::map<std::string, std::string>& ways,
              double gemm, double copy) {
    if (o.type == "float32") return bench_case<float>(c, o, peer, ways, gemm, copy);
    if (o.type == "complex64") return bench_case<std::complex<float>>(c, o, peer, ways, gemm, copy);
    if (o.type == "complex128") return bench_case<std::complex<double>>(c, o, peer, ways, gemm, copy);
    return bench_case<double>(c, o, peer, ways, gemm, copy);
}

}  // namespace

Json bench_contractions(const ContractionsOptions& o) {
    const int threads = resolve_threads(o.threads);
    const double gemm =
        openblas_dgemm_rate(threads).mean_gflops * (o.type == "float32" || o.type == "complex64" ? 2 : 1);
    const double copy = measure_copy_gbs(threads);
    Json result = {{"benchmark", "contractions"}, {"commit", build_commit()}, {"machine", cpu_name()},
                   {"isa", name(detected_isa())}, {"threads", threads},       {"type", o.type},
                   {"gemm_gflops", gemm},         {"copy_gbs", copy},         {"cases", Json::array()}};
    std::unique_ptr<Peer> peer;
    std::map<std::string, std::string> ways;
    if (o.peers) {
        peer = std::make_unique<Peer>(o.python, peer_program({}, "einsum_peer").string(), threads);
        const Json hello = peer->answer();
        if (hello.is_null() || hello.contains("missing"))
            result["peer_missing"] =
                hello.is_null() ? o.python + " cannot be started" : hello["missing"].get<std::string>();
        else
            ways = hello["peers"].get<std::map<std::string, std::string>>();
        result["peers"] = ways;
    }
    for (const auto& c : kCases) {
        if (!o.families.empty() && std::find(o.families.begin(), o.families.end(), c.family) == o.families.end())
            continue;
        result["cases"].push_back(run_case(c, o, peer.get(), ways, gemm, copy));
        if (o.quiet) continue;
        const Json& one = result["cases"].back();
        std::string text =
            fmt::format("{:<10} {:<22} of floor {:4.2f} GFLOP/s:", c.family, c.spec, one["of_floor"].get<double>());
        for (const auto& [way, rate] : one["gflops"].items())
            text += fmt::format(" {} {:.1f}", way, rate.get<double>());
        fmt::print(stderr, "{}\n", text);
    }
    // Ratios to each peer: with the result's memory given, and fresh.
    Json summary;
    const auto ratios = [&](const std::string& ours, const std::string& theirs, const std::string& as) {
        double logs = 0, worst = 1e300;
        std::string which;
        int n = 0;
        for (const Json& one : result["cases"]) {
            if (!one["gflops"].contains(ours) || !one["gflops"].contains(theirs)) continue;
            const double ratio = one["gflops"][ours].get<double>() / one["gflops"][theirs].get<double>();
            logs += std::log(ratio);
            ++n;
            if (ratio < worst) {
                worst = ratio;
                which = one["spec"];
            }
        }
        if (n > 0)
            summary[as] = {{"geomean", std::exp(logs / n)}, {"worst", worst}, {"worst_case", which}, {"cases", n}};
    };
    for (const auto& [way, name] : ways) {
        ratios("into", way, "over_" + way);
        ratios("fresh", way + "_fresh", "over_" + way + "_fresh");
    }
    const auto mean = [&](const std::string& way) {
        double logs = 0;
        int n = 0;
        for (const Json& one : result["cases"])
            if (one["gflops"].contains(way)) logs += std::log(one["gflops"][way].get<double>()), ++n;
        if (n > 0) summary["geomean_gflops"][way] = std::exp(logs / n);
    };
    for (const std::string way : {"into", "fresh", "tblis", "tblis_fresh", "numpy", "numpy_fresh", "torch_fresh"})
        mean(way);
    double least = 1e300;
    for (const Json& one : result["cases"])
        if (one["family"] == "ttm" || one["family"] == "outer" || one["family"] == "transform")
            least = std::min(least, one["of_floor"].get<double>());
    if (least < 1e300) summary["worst_of_floor"] = least;
    result["summary"] = summary;
    return result;
}

void print_bench_contractions(const Json& result) {
    fmt::print("{} threads of {}, {}: DGEMM {:.1f} GFLOP/s, copy {:.1f} GB/s\n", result["threads"].get<int>(),
               result["machine"].get<std::string>(), result["type"].get<std::string>(),
               result["gemm_gflops"].get<double>(), result["copy_gbs"].get<double>());
    fmt::print("{:<10} {:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}\n", "family", "spec", "into", "fresh", "TBLIS",
               "NumPy", "torch", "floor");
    for (const Json& one : result["cases"]) {
        const auto rate = [&](const char* way) {
            return one["gflops"].contains(way) ? fmt::format("{:.1f}", one["gflops"][way].get<double>()) : "-";
        };
        fmt::print("{:<10} {:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7.2f}\n", one["family"].get<std::string>(),
                   one["spec"].get<std::string>(), rate("into"), rate("fresh"), rate("tblis"), rate("numpy"),
                   rate("torch_fresh"), one["of_floor"].get<double>());
    }
    for (const auto& [key, value] : result["summary"].items())
        if (value.contains("geomean"))
            fmt::print("{}: {:.2f} (geometric mean of {}), worst {:.2f} ({})\n", key, value["geomean"].get<double>(),
                       value["cases"].get<int>(), value["worst"].get<double>(), value["worst_case"].get<std::string>());
    if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
}

}  // namespace tessera::bench
