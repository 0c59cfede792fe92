#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/process/sandbox.hpp>
#include <cubepi/process/sandbox/enter_sandbox.hpp>

namespace cubepi::detail {

/// Namespaces that all sandboxes of this process share: commands reach each other over their loopback interface, and the limit of
/// processes counts all of them. Mounts are of each command alone.
struct SharedNamespaces {
    UniqueFd user;
    UniqueFd network;
    UniqueFd ipc;
    bool terminals = false;  ///< a set of terminals can be mounted
    std::string problem;     ///< why there are none; empty: they can be used

    NamespaceFds descriptors() const noexcept { return {user.get(), network.get(), ipc.get()}; }
};

/// Creates the namespaces at the first call, and tests in a process of its own whether mounts can be made in them. Thread-safe.
const SharedNamespaces& shared_namespaces();

/// The means that a sandbox uses: what the kernel has, within the limits of the profile.
struct SandboxMeans {
    explicit SandboxMeans(const SandboxProfile& profile);
    bool namespaces = false;
    int landlock = 0;         ///< its version; 0: not used
    bool bubblewrap = false;  ///< only if there is nothing else
    bool process_limit = false;

    bool mounts() const noexcept { return namespaces || bubblewrap; }
    bool usable() const noexcept { return mounts() || landlock > 0; }
};

/// The paths of a profile as they are now: absolute, without symbolic links, sorted, without those that do not exist.
struct SandboxPaths {
    explicit SandboxPaths(const SandboxProfile& profile);
    std::vector<std::string> writable;
    std::vector<std::string> read_only;  ///< below `writable`
    std::vector<std::string> hidden;     ///< neither in `writable` nor in `visible`
    std::vector<std::string> visible;    ///< below `hidden`, and not in `writable`
    std::vector<std::string> devices;    ///< those without contents of their own

    /// Returns true if a writable path is above this one.
    bool is_in_writable(std::string_view path) const;
};

/// Returns true if `path` is `directory` or below it.
bool is_within(std::string_view path, std::string_view directory);

/// A sandbox for one process, prepared before its fork.
class SandboxPlan {
public:
    /// `directory` is the open working directory. Throws Error: unsupported if there are no means, io.
    SandboxPlan(const SandboxProfile& profile, int directory);
    SandboxPlan(const SandboxPlan&) = delete;
    SandboxPlan& operator=(const SandboxPlan&) = delete;

    const SandboxEntry& entry() const noexcept { return entry_; }
    /// True if bubblewrap has to carry the plan out.
    bool is_wrapped() const noexcept { return !wrapper_.empty(); }
    /// Makes bubblewrap the program. `words` are the name and the arguments of the sandboxed one, whose environment bubblewrap sets.
    void wrap(std::string& program, std::vector<std::string>& words,
              std::vector<std::string>& environment);
    /// "mount /srv/keys: Operation not permitted"
    std::string describe(const SandboxFailure& failure) const;

private:
    void plan_mounts(const SandboxPaths& paths, bool has_terminals);
    void mask(const std::string& path, const SandboxPaths& paths);
    void make_rules(const SandboxPaths& paths, const SandboxMeans& means);
    void allow(const std::string& path, const SandboxMeans& means, bool reads);
    void allow_reading(const std::string& directory, const std::vector<std::string>& hidden);
    void add(MountStep::Kind kind, const std::string& path, std::size_t slot = 0);
    void open_places();

    std::deque<std::string> texts_;  ///< of the steps; their addresses do not change
    std::vector<MountStep> steps_;
    std::vector<sock_filter> filter_;
    UniqueFd ruleset_;
    UniqueFd wrapper_options_;
    UniqueFd wrapper_filter_;
    std::vector<UniqueFd> places_;
    std::vector<int> place_numbers_;
    std::string wrapper_;  ///< the options of bubblewrap; empty: it is not used
    SandboxEntry entry_;
};

}  // namespace cubepi::detail
