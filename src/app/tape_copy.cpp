#include "tape_copy.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/copy_tape.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "config/tape_place.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "saved_sessions.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

using StorePtr = std::shared_ptr<bub::SessionTapeStore>;

bool is_main(const std::string& name) {
    const std::size_t first = name.find("__");
    return first != name.npos && name.find("__", first + 2) == name.npos;
}

/// The tapes that the arguments name, each followed by its sidecars.
std::vector<std::string> chosen_tapes(const TapeArguments& arguments,
                                      const std::vector<std::string>& all) {
    if (arguments.all) return all;
    std::string name = arguments.tape;
    if (!arguments.session.empty()) {
        const std::filesystem::path here = std::filesystem::current_path();
        name = bub::tape_name(here, session_id_of(arguments.session));
        if (std::find(all.begin(), all.end(), name) == all.end())
            name = bub::tape_name(here, arguments.session);
    }
    std::vector<std::string> chosen;
    const bool exact = std::find(all.begin(), all.end(), name) != all.end();
    for (const std::string& one : all) {
        const bool fits = exact ? one == name : one.starts_with(name) && is_main(one);
        if (fits) chosen.push_back(one);
    }
    if (chosen.size() != 1) {
        throw Error(ErrorCode::invalid_argument,
                    (chosen.empty() ? "there is no tape '" : "several tapes begin with '") + name +
                        "'; to see their names: cubepi tape list");
    }
    const std::string owner = chosen.front() + "__";
    for (const std::string& one : all) {
        if (is_main(chosen.front()) && one.starts_with(owner)) chosen.push_back(one);
    }
    return chosen;
}

class Copy {
public:
    Copy(const TapeArguments& arguments, std::ostream& out, std::ostream& err)
        : arguments_(arguments), shown_(out), told_(err) {}

    Task<int> perform() {
        const StorePtr from =
            arguments_.directory.empty() ? configured_tapes() : open_tapes(arguments_.directory);
        const StorePtr to = open_tapes(arguments_.target == "files" ? "" : arguments_.target);
        if (!arguments_.all && arguments_.tape.empty() && arguments_.session.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "nothing to copy: name a tape with --tape or --session, or add --all");
        }
        if (from->place() == to->place()) {
            throw Error(ErrorCode::invalid_argument,
                        "the tapes are in " + to->place() +
                            " already; name their place with --dir or --db");
        }
        const std::vector<std::string> all = co_await from->all_tapes();
        const std::vector<std::string> tapes = chosen_tapes(arguments_, all);
        if (tapes.empty()) told_ << "No tapes in " << for_terminal(from->place()) << ".\n";
        int status = exit_ok;
        for (const std::string& tape : tapes) {
            const int copied = co_await copy_one(from, to, tape);
            status = std::max(status, copied);
        }
        co_return status;
    }

private:
    Task<int> copy_one(StorePtr from, StorePtr to, std::string tape) {
        std::exception_ptr failure;
        bub::CopiedTape copied;
        try {
            copied = co_await bub::copy_tape(from, to, tape, arguments_.force);
        } catch (const Error& error) {
            failure = std::current_exception();
            report(error);
        }
        if (failure) co_return exit_storage;
        std::string what = "nothing new";
        if (copied.entries > 0) {
            what = std::to_string(copied.entries) + (copied.entries == 1 ? " entry" : " entries");
        } else if (copied.state) {
            what = "side state";
        }
        shown_ << for_terminal(tape) << "\t" << for_terminal(what) << "\n";
        co_return exit_ok;
    }

    void report(const Error& error) {
        std::string text = error.what();
        if (error.code() == ErrorCode::invalid_state)
            text += ". To replace it with this one: --force";
        told_ << "cubepi: " << for_terminal(text) << "\n";
    }

    const TapeArguments& arguments_;
    TerminalStream shown_;
    TerminalStream told_;
};

}  // namespace

int copy_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err) {
    Copy copy(arguments, out, err);
    return run(copy.perform());
}

}  // namespace cubepi::app
