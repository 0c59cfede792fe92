#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/process/environment.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

/// The permissions of a LocalWorkspace.
struct WorkspacePolicy {
    /// False: files can only be read, and commands are not allowed.
    bool writable = true;
    /// False: a path with a symbolic link in it is refused, even if the link stays inside. The root itself may be a link.
    bool follow_links = true;
    /// Additional directories that may be read and, if `writable`, written under their absolute paths, by the rules of the root.
    std::vector<std::filesystem::path> more_roots;
    /// Additional directories that may be read, under their absolute paths.
    std::vector<std::filesystem::path> read_only_roots;
    /// The variables of this process that commands inherit.
    EnvironmentPolicy environment;
    /// Variables that commands never receive, regardless of `environment`.
    std::vector<std::string> hidden_variables;
    /// Additional variables of commands, "NAME=value"; they override inherited ones.
    std::vector<std::string> extra_environment;
    /// Returns the sandbox of commands. Called once, when the first command starts: later ones do not see what it has made of the files
    /// that the function reads. `root` is writable only if it is listed. Must not return null. Empty: a command can access everything
    /// that its user can.
    std::function<std::shared_ptr<const SandboxProfile>()> sandbox;
    /// The shell; empty: /bin/bash if it exists, else /bin/sh.
    std::string shell;

    WorkspacePolicy() {}
    WorkspacePolicy&& read_only() && {
        writable = false;
        return std::move(*this);
    }
    WorkspacePolicy&& without_links() && {
        follow_links = false;
        return std::move(*this);
    }
    WorkspacePolicy&& also_read(std::filesystem::path directory) && {
        read_only_roots.push_back(std::move(directory));
        return std::move(*this);
    }
};

/// A directory of this machine.
///
/// A path is checked by opening it: the kernel (openat2, RESOLVE_BENEATH) refuses every path that leads out of the root, so
/// nothing can change between check and use. Symbolic links that stay inside are followed; absolute links and links to the
/// outside are refused. This applies to files only; commands are confined by WorkspacePolicy::sandbox.
class LocalWorkspace final : public Workspace {
public:
    /// Throws Error: not_found, permission_denied.
    explicit LocalWorkspace(const std::filesystem::path& root,
                            WorkspacePolicy policy = WorkspacePolicy());
    ~LocalWorkspace() override;

    std::string root() const override;
    FileInfo stat(const std::string& path) override;
    std::unique_ptr<FileReader> open(const std::string& path) override;
    std::vector<DirectoryEntry> list(const std::string& path) override;
    bool write(const std::string& path, std::string_view content) override;
    void update(const std::string& path, std::size_t max_bytes,
                const std::function<std::string(std::string)>& change) override;
    void rewrite(const std::string& path, std::size_t max_bytes, const Rewrite& change) override;
    void replace(const std::string& path, std::size_t max_bytes, const Replace& change) override;
    void remove(const std::string& path) override;
    std::string write_target(const std::string& path) override;
    std::shared_ptr<Workspace> without_links() override;
    Task<std::shared_ptr<Process>> start(ProcessRequest request) override;
    bool has_sandbox() const override;
    std::shared_ptr<const SandboxProfile> sandbox() const override;

    using Workspace::read;

private:
    struct Shared;
    struct State;
    explicit LocalWorkspace(std::shared_ptr<State> state);

    std::shared_ptr<State> state_;
};

}  // namespace cubepi
