#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>

// Archives and empties a tape and its sidecars.

namespace bub {

namespace {

/// An operation on a sidecar, as recorded in its event.
struct SidecarOutcome {
    std::string what = {};  ///< archive, reset
    std::string sidecar = {};
    std::string reason = {};
    std::string archive = {};
    std::exception_ptr failure = {};

    TapeEntry entry() const {
        JsonObject data;
        data["sidecar"] = sidecar;
        data["status"] = failure ? "error" : "ok";
        data["reason"] = reason;
        if (!archive.empty()) data["archive"] = archive;
        if (failure) data["error"] = cubepi::exception_text(failure);
        return event_entry("sidecar." + what, std::move(data), hidden_from_context());
    }
};

Task<SidecarOutcome> try_archive(Tape sidecar, std::string name, std::string directory,
                                 std::string reason) {
    SidecarOutcome outcome;
    outcome.what = "archive";
    outcome.sidecar = std::move(name);
    outcome.reason = std::move(reason);
    try {
        outcome.archive = co_await sidecar.archive(std::move(directory));
    } catch (...) {
        outcome.failure = std::current_exception();
    }
    if (cubepi::is_cancellation(outcome.failure)) std::rethrow_exception(outcome.failure);
    co_return outcome;
}

Task<SidecarOutcome> try_reset(Tape sidecar, std::string name, std::string reason) {
    SidecarOutcome outcome;
    outcome.what = "reset";
    outcome.sidecar = std::move(name);
    outcome.reason = std::move(reason);
    try {
        co_await sidecar.store()->reset(sidecar.name());
    } catch (...) {
        outcome.failure = std::current_exception();
    }
    if (cubepi::is_cancellation(outcome.failure)) std::rethrow_exception(outcome.failure);
    co_return outcome;
}

/// Creates a new file: an archive of the same second is not overwritten.
std::filesystem::path write_new(const std::filesystem::path& stem,
                                const std::vector<TapeEntry>& entries) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(stem.parent_path(), unknown))
        detail::make_private_directory(stem.parent_path());
    for (int number = 1;; ++number) {
        std::filesystem::path path = stem;
        if (number > 1) path += "-" + std::to_string(number);
        path += ".bak";
        if (std::filesystem::exists(path)) continue;
        const detail::Descriptor file = detail::Descriptor::open(path, O_WRONLY | O_CREAT | O_EXCL);
        for (const TapeEntry& entry : entries) file.write(tape_line(entry));
        return path;
    }
}

}  // namespace

std::string sidecar_tape_name(std::string_view owner, std::string_view sidecar) {
    return std::string(owner) + "__sidecar__" + std::string(sidecar);
}

Tape Tape::sidecar(std::string_view name) const {
    if (std::find(sidecars_.begin(), sidecars_.end(), name) == sidecars_.end()) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "tape '" + name_ + "' has no sidecar '" + std::string(name) +
                                "'; a plugin's provide_tape_sidecar has to give it");
    }
    return Tape(store_, sidecar_tape_name(name_, name));
}

Task<std::string> Tape::archive(std::string directory) const {
    const Tape tape = *this;
    const std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
    std::string stamp = tape_date(runtime->clock->wall()).substr(0, 19);
    std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
    std::filesystem::path stem =
        std::filesystem::path(std::move(directory)) / (tape.name_ + ".jsonl." + stamp + "Z");
    TapeQuery all;
    std::vector<TapeEntry> entries = co_await tape.store_->fetch(tape.name_, std::move(all));
    if (entries.empty()) co_return std::string();
    auto write = [stem = std::move(stem), entries = std::move(entries)] {
        return write_new(stem, entries);
    };
    const std::filesystem::path path =
        co_await cubepi::offload(*runtime->workers, std::move(write));
    co_return path.string();
}

Task<std::string> Tape::reset(TapeReset options) const {
    const Tape tape = *this;
    const bool archives = !options.archive_directory.empty();
    std::string archived;
    if (archives) archived = co_await tape.archive(options.archive_directory);
    std::vector<SidecarOutcome> archives_made;
    for (const std::string& name : tape.sidecars_) {
        SidecarOutcome outcome;
        if (archives) {
            outcome = co_await try_archive(tape.sidecar(name), name, options.archive_directory,
                                           "tape.reset");
        }
        archives_made.push_back(std::move(outcome));
    }
    co_await tape.restart(archived);
    for (std::size_t i = 0; i < tape.sidecars_.size(); ++i) {
        const SidecarOutcome& made = archives_made[i];
        std::vector<TapeEntry> events;
        if (made.failure || !made.archive.empty()) events.push_back(made.entry());
        if (!made.failure) {
            const std::string& name = tape.sidecars_[i];
            const SidecarOutcome outcome =
                co_await try_reset(tape.sidecar(name), name, "tape.reset");
            events.push_back(outcome.entry());
        }
        co_await tape.append(std::move(events));
    }
    co_return archived;
}

Task<std::string> Tape::archive_sidecar(std::string name, std::string directory,
                                        std::string reason) const {
    const Tape tape = *this;
    const SidecarOutcome outcome =
        co_await try_archive(tape.sidecar(name), name, std::move(directory), std::move(reason));
    TapeEntry event = outcome.entry();
    co_await tape.append(std::move(event));
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    co_return outcome.archive;
}

Task<std::string> Tape::reset_sidecar(std::string name, std::string archive_directory,
                                      std::string reason) const {
    const Tape tape = *this;
    std::string archived;
    if (!archive_directory.empty()) {
        archived = co_await tape.archive_sidecar(name, std::move(archive_directory), reason);
    }
    const SidecarOutcome outcome = co_await try_reset(tape.sidecar(name), name, std::move(reason));
    TapeEntry event = outcome.entry();
    co_await tape.append(std::move(event));
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    co_return archived;
}

}  // namespace bub
