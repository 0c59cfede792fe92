#include <cubepi/process/sandbox.hpp>

#include <algorithm>

#include <cubepi/core/error.hpp>
#include <cubepi/process/sandbox/bubblewrap.hpp>
#include <cubepi/process/sandbox/kernel_rules.hpp>
#include <cubepi/process/sandbox/sandbox_plan.hpp>

namespace cubepi {

namespace {

/// The means that hold the promises of one profile.
class Guarantees {
public:
    explicit Guarantees(const SandboxProfile& profile)
        : profile_(profile),
          means_(profile),
          paths_(profile),
          usable_(sandbox_support().seccomp && means_.usable()),
          landlock_("Landlock " + std::to_string(means_.landlock)) {}

    std::vector<SandboxGuarantee> all() const {
        using P = SandboxProperty;
        const bool spaces = means_.mounts();
        const std::string by = means_.bubblewrap ? " by bubblewrap" : "";
        const int version = means_.landlock;
        const std::string mounts = "read-only mounts" + by;
        const std::string needs_mounts = "needs user namespaces";
        std::vector<SandboxGuarantee> list;
        const auto add = [&](P property, bool applies, bool held, std::string how) {
            SandboxGuarantee& one = list.emplace_back();
            one.property = property;
            one.applies = applies;
            one.held = usable_ && held;
            one.how = usable_ ? std::move(how) : sandbox_support().problem();
        };
        add(P::writes, true, true, joined(spaces ? mounts : "", version > 0 ? landlock_ : ""));
        add(P::truncation, true, true,
            spaces                                   ? mounts
            : version >= detail::landlock_truncation ? landlock_
                                                     : "seccomp");
        add(P::metadata, true, spaces, spaces ? mounts : needs_mounts);
        add(P::read_only, !profile_.read_only.empty(), spaces,
            spaces ? "mounts" + by : needs_mounts);
        const bool inside =
            std::any_of(paths_.hidden.begin(), paths_.hidden.end(),
                        [this](const std::string& path) { return paths_.is_in_writable(path); });
        add(P::hidden, !profile_.hidden.empty(), spaces || !inside,
            spaces   ? "mounts" + by
            : inside ? needs_mounts + " below a writable directory"
                     : landlock_ + "; names are visible");
        add(P::network, !profile_.network, true,
            spaces ? "a network namespace" + by : "seccomp: no sockets at all");
        const bool scoped = version >= detail::landlock_scopes;
        const bool own_network = spaces && !profile_.network;
        add(P::abstract_unix, true, !profile_.unix_sockets || own_network || scoped,
            !profile_.unix_sockets ? "seccomp"
            : own_network          ? "a network namespace"
            : scoped               ? landlock_
                                   : "needs Landlock 6");
        add(P::path_unix, !profile_.unix_sockets, true, "seccomp");
        const std::string own_processes = "a namespace of processes" + by;
        add(P::processes, true, true,
            version > 0         ? landlock_
            : means_.bubblewrap ? own_processes
                                : "a user namespace, seccomp");
        add(P::signals, true, scoped || means_.bubblewrap,
            scoped              ? landlock_
            : means_.bubblewrap ? own_processes
                                : "needs Landlock 6");
        add(P::terminals, true, true, spaces ? "mounts" + by : landlock_);
        add(P::devices, !contains_root(), true, spaces ? "mounts" + by : landlock_);
        add(P::privileges, true, true, "no_new_privs, seccomp");
        add(P::process_limit, profile_.max_processes > 0, means_.process_limit,
            means_.process_limit ? std::to_string(profile_.max_processes) + " in a user namespace"
                                 : "needs user namespaces, and another user than root");
        return list;
    }

private:
    bool contains_root() const { return paths_.is_in_writable("/"); }
    static std::string joined(const std::string& first, const std::string& second) {
        return first + (first.empty() || second.empty() ? "" : ", ") + second;
    }

    const SandboxProfile& profile_;
    const detail::SandboxMeans means_;
    const detail::SandboxPaths paths_;
    const bool usable_;
    const std::string landlock_;
};

}  // namespace

SandboxProfile SandboxProfile::without_writes() const {
    SandboxProfile copy = *this;
    // Trees below hidden directories stay readable.
    copy.visible.insert(copy.visible.end(), writable.begin(), writable.end());
    copy.changed_by_others.insert(copy.changed_by_others.end(), writable.begin(), writable.end());
    copy.writable.clear();
    return copy;
}

std::string SandboxSupport::problem() const {
    if (available()) return {};
    if (!seccomp) return "the kernel has no filters of system calls (seccomp)";
    return "the kernel has no Landlock, and " + namespaces_problem;
}

const SandboxSupport& sandbox_support() {
    static const SandboxSupport support = [] {
        SandboxSupport found;
        found.landlock_abi = detail::landlock_version();
        found.seccomp = detail::has_system_call_filters();
        found.namespaces_problem = detail::shared_namespaces().problem;
        found.namespaces = found.namespaces_problem.empty();
        if (found.namespaces || found.landlock_abi > 0) return found;
        const detail::Bubblewrap& wrapper = detail::bubblewrap();
        found.namespaces = wrapper.problem.empty();
        found.namespaces_problem +=
            found.namespaces ? "; " + wrapper.path + " makes them" : ", and " + wrapper.problem;
        return found;
    }();
    return support;
}

bool SandboxGuarantee::essential() const noexcept {
    switch (property) {
        case SandboxProperty::writes:
        case SandboxProperty::truncation:
        case SandboxProperty::read_only:
        case SandboxProperty::hidden:
        case SandboxProperty::network:
        case SandboxProperty::path_unix:
        case SandboxProperty::processes:
        case SandboxProperty::privileges: return true;
        default: return false;
    }
}

std::string to_string(SandboxProperty property) {
    switch (property) {
        case SandboxProperty::writes: return "no writes outside of the writable directories";
        case SandboxProperty::truncation: return "no truncation there";
        case SandboxProperty::metadata: return "no changes of modes, times and attributes there";
        case SandboxProperty::read_only: return "protected files are neither changed nor replaced";
        case SandboxProperty::hidden: return "keys and the configuration are not read";
        case SandboxProperty::network: return "no network, no name resolution";
        case SandboxProperty::abstract_unix: return "no abstract Unix sockets of other processes";
        case SandboxProperty::path_unix: return "no Unix sockets of other processes";
        case SandboxProperty::processes: return "other processes are not read or traced";
        case SandboxProperty::signals: return "other processes get no signals";
        case SandboxProperty::terminals: return "terminals of the user are not used";
        case SandboxProperty::devices: return "no devices but /dev/null and the like";
        case SandboxProperty::privileges: return "no privileges by setuid programs";
        case SandboxProperty::process_limit: return "a limit of processes";
    }
    return {};
}

std::vector<SandboxGuarantee> sandbox_guarantees(const SandboxProfile& profile) {
    return Guarantees(profile).all();
}

bool sandbox_holds(const SandboxProfile& profile, SandboxProperty property) {
    const std::vector<SandboxGuarantee> all = sandbox_guarantees(profile);
    return std::any_of(all.begin(), all.end(), [property](const SandboxGuarantee& one) {
        return one.property == property && one.applies && one.held;
    });
}

}  // namespace cubepi
