#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <bub/session_tape.hpp>
#include <bub/tape/copy_tape.hpp>
#include <bub/tape/prompt_context.hpp>
#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/python_json.hpp>

#include "config/config_file.hpp"
#include "config/gateway_settings.hpp"
#include "config/paths.hpp"
#include "config/store_locations.hpp"
#include "failure.hpp"
#include "gateway/gateway_instance.hpp"
#include "process.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

using StorePtr = std::shared_ptr<bub::SessionTapeStore>;

bool is_main(const std::string& name) {
    const std::size_t first = name.find("__");
    return first != name.npos && name.find("__", first + 2) == name.npos;
}

bool contains(const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
}

/// Returns the tape of --session: the name of a saved session of this directory, the pipeline's id of one, or that of one of the
/// gateway. Empty: there is none.
Task<std::string> tape_of_session(StorePtr store, std::string session) {
    const std::vector<std::string> all = co_await store->all_tapes();
    const std::filesystem::path here = std::filesystem::current_path();
    for (std::string name :
         {bub::tape_name(here, session_id_of(session)), bub::tape_name(here, session)})
        if (contains(all, name)) co_return name;
    const GatewaySettings gateway =
        gateway_settings(config_values(config_path()), TimeZones::ignored);
    Task<std::string> finding = session_tape(store, gateway, workspaces_root(gateway), session);
    std::string name = co_await std::move(finding);
    if (!contains(all, name)) name.clear();
    co_return name;
}

/// The tapes that the arguments name, each followed by its sidecars. `name`: of the tape, or its beginning.
std::vector<std::string> chosen_tapes(const TapeArguments& arguments, const std::string& name,
                                      const std::vector<std::string>& all) {
    if (arguments.all) return all;
    const bool by_session = !arguments.session.empty();
    std::vector<std::string> chosen;
    const bool exact = contains(all, name);
    for (const std::string& one : all) {
        const bool fits =
            exact ? one == name : !by_session && one.starts_with(name) && is_main(one);
        if (fits) chosen.push_back(one);
    }
    if (chosen.size() != 1) {
        throw Error(ErrorCode::invalid_argument,
                    (chosen.empty() ? "there is no tape '" : "several tapes begin with '") +
                        (by_session ? arguments.session : name) +
                        "'; to see their names: cubepi tape list");
    }
    const std::string owner = chosen.front() + "__";
    for (const std::string& one : all) {
        if (is_main(chosen.front()) && one.starts_with(owner)) chosen.push_back(one);
    }
    if (!by_session) return chosen;
    // Of a session of an earlier version: other hosts find its tape by the link (D100).
    const GatewaySettings gateway =
        gateway_settings(config_values(config_path()), TimeZones::ignored);
    const std::string link = bub::shared_tape_name(gateway.tape_namespace, arguments.session);
    if (link != name && contains(all, link)) chosen.push_back(link);
    return chosen;
}

class Copy {
public:
    Copy(const TapeArguments& arguments, std::ostream& out, std::ostream& err)
        : arguments_(arguments), shown_(out), err_(err) {}

    Task<int> perform() {
        const StorePtr from =
            arguments_.directory.empty() ? configured_tapes() : open_tapes(arguments_.directory);
        const StorePtr to = open_tapes(arguments_.target == "files" ? "" : arguments_.target);
        if (!arguments_.all && arguments_.tape.empty() && arguments_.session.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "nothing to copy: name a tape with --tape or --session, or add --all");
        }
        if (from->location() == to->location()) {
            throw Error(ErrorCode::invalid_argument,
                        "the tapes are in " + to->location() +
                            " already; name their place with --dir or --db");
        }
        const std::vector<std::string> all = co_await from->all_tapes();
        std::string name = arguments_.tape;
        if (!arguments_.session.empty()) name = co_await tape_of_session(from, arguments_.session);
        const std::vector<std::string> tapes = chosen_tapes(arguments_, name, all);
        if (tapes.empty()) err_ << "No tapes in " << for_terminal(from->location()) << ".\n";
        int status = exit_ok;
        std::size_t left = tapes.size();
        for (const std::string& tape : tapes) {
            const int copied = co_await copy_one(from, to, tape);
            status = std::max(status, copied);
            // The next one would wait for the same server.
            if (is_unreachable_) break;
            --left;
        }
        if (left > 0)
            err_ << "cubepi: stopped; not copied: " << left << " of " << tapes.size() << "\n";
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
            is_unreachable_ = is_network(error.code()) || error.code() == ErrorCode::auth ||
                              error.code() == ErrorCode::unavailable;
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
        err_ << "cubepi: " << for_terminal(text) << "\n";
    }

    const TapeArguments& arguments_;
    TerminalStream shown_;
    TerminalStream err_;
    bool is_unreachable_ = false;  // one of the two places
};

/// `cubepi tape copy`: copies tapes with their sidecars between files and servers. A tape that cannot be copied does not keep the others
/// from it, but a server that cannot be reached does. Returns the exit status.
int copy_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err) {
    Copy copy(arguments, out, err);
    return run(copy.perform());
}

using bub::ListedTape;
using bub::Tape;
using bub::TapeEntry;
using bub::TapeQuery;

std::string local_time(std::chrono::system_clock::time_point time) {
    return app::local_time(std::chrono::duration<double>(time.time_since_epoch()).count());
}

/// Summarizes an entry in one line.
std::string summary_of(const TapeEntry& entry) {
    if (entry.kind == "message")
        return detail::text_member(entry.payload, "role") + ": " +
               std::string(bub::without_context(detail::text_member(entry.payload, "content")));
    if (entry.kind == "tool_call") {
        std::string names;
        const Json* calls = entry.payload.if_contains("calls");
        if (calls && calls->is_array()) {
            for (const Json& call : calls->get_array()) {
                const Json* function =
                    call.is_object() ? call.get_object().if_contains("function") : nullptr;
                if (!function || !function->is_object()) continue;
                names += names.empty() ? "" : ", ";
                names += detail::text_member(function->get_object(), "name") + " " +
                         detail::text_member(function->get_object(), "arguments");
            }
        }
        return names;
    }
    if (entry.kind == "anchor" || entry.kind == "event") {
        const Json* more = entry.payload.if_contains(entry.kind == "anchor" ? "state" : "data");
        return std::string(bub::entry_name(entry)) + (more ? " " + to_python_json(*more) : "");
    }
    return to_python_json(entry.payload);
}

class Show {
public:
    Show(TapeArguments arguments, std::ostream& out, std::ostream& err)
        : arguments_(std::move(arguments)),
          out_(out),
          shown_(out),
          err_(err),
          store_(arguments_.directory.empty() ? configured_tapes()
                                              : open_tapes(arguments_.directory)) {}

    Task<int> perform() {
        from_ = utc_time("--from", arguments_.from, false);
        to_ = utc_time("--to", arguments_.to, true);
        if (arguments_.what == TapeArguments::What::list) co_return co_await list();
        const std::string name = co_await find_tape();
        if (name.empty()) co_return exit_usage;
        const Tape tape(store_, name);
        switch (arguments_.what) {
            case TapeArguments::What::search: co_await search(tape); break;
            case TapeArguments::What::anchors: co_await anchors(tape); break;
            case TapeArguments::What::export_lines: co_await export_lines(tape); break;
            default: co_await show(tape);
        }
        co_return exit_ok;
    }

private:
    Task<int> list() {
        constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
        const std::size_t most = arguments_.limit == 0 ? all : arguments_.limit;
        const std::vector<ListedTape> files =
            co_await store_->newest_tapes_after(std::nullopt, most);
        if (files.empty()) err_ << "No tapes in " << for_terminal(store_->location()) << ".\n";
        int status = exit_ok;
        // Separated by tabs, for scripts.
        for (const ListedTape& file : files) {
            std::optional<bub::TapeInfo> info;
            try {
                info = co_await store_->info(file.name);
            } catch (const Error& error) {
                // A failure does not hide the others.
                const Failure failure = explain(error);
                err_ << "cubepi: " << for_terminal(failure.text) << "\n";
                status = failure.exit_code;
            }
            const std::string entries = info ? std::to_string(info->entries) : "?";
            const std::string anchor = info ? info->last_anchor.value_or("-") : "?";
            shown_ << for_terminal(file.name) << "\t" << for_terminal(local_time(file.modified))
                   << "\t" << file.bytes << " bytes\t" << for_terminal(entries)
                   << (entries == "1" ? TerminalView(" entry\t") : TerminalView(" entries\t"))
                   << line_for_terminal(anchor, 60) << "\n";
        }
        co_return status;
    }

    /// Empty, with an error message, if there is none.
    Task<std::string> find_tape() {
        const std::string directory = std::filesystem::current_path().string();
        if (!arguments_.session.empty()) {
            std::string name = co_await tape_of_session(store_, arguments_.session);
            if (!name.empty()) co_return name;
            err_ << "cubepi: session '" << for_terminal(arguments_.session)
                 << "' of this directory has no tape.\n  See all tapes: cubepi tape list\n";
            co_return std::string();
        }
        if (!arguments_.tape.empty()) co_return co_await find_named();
        const std::string here = bub::tape_name(directory, "").substr(0, 18);
        std::vector<ListedTape> newest = co_await store_->newest_tapes_after(std::nullopt, 1, here);
        if (newest.empty()) newest = co_await store_->newest_tapes_after(std::nullopt, 1);
        if (!newest.empty()) co_return newest.front().name;
        err_ << "cubepi: no tapes in " << for_terminal(store_->location()) << ".\n";
        co_return std::string();
    }

    Task<std::string> find_named() {
        std::vector<std::string> found;
        const std::vector<std::string> all = co_await store_->all_tapes();
        for (const std::string& name : all) {
            if (name == arguments_.tape) co_return name;
            if (name.starts_with(arguments_.tape)) found.push_back(name);
        }
        if (found.size() == 1) co_return found.front();
        err_ << "cubepi: "
             << (found.empty() ? TerminalView("there is no tape '")
                               : TerminalView("several tapes begin with '"))
             << for_terminal(arguments_.tape) << "'.\n  See their names: cubepi tape list\n";
        co_return std::string();
    }

    void print(const TapeEntry& entry) {
        if (arguments_.json) {
            data_output(out_, safe_json_text(bub::tape_line(entry)));
            return;
        }
        shown_ << entry.id << "\t" << for_terminal(app::local_time(entry.date)) << "\t"
               << for_terminal(entry.kind) << "\t" << line_for_terminal(summary_of(entry), 200)
               << "\n";
    }

    TapeQuery filtered() const {
        TapeQuery query = TapeQuery().kinds(arguments_.kinds);
        if (from_.empty() && to_.empty()) return query;
        return std::move(query).between_dates(from_.empty() ? "0001-01-01" : from_,
                                              to_.empty() ? "9999-12-31" : to_);
    }

    Task<void> show(Tape tape) {
        if (arguments_.limit == 0) {
            // One at a time: a tape may be longer than memory.
            TapeQuery all = filtered();
            std::function<bool(const TapeEntry&)> each = [this](const TapeEntry& entry) {
                print(entry);
                return out_.good();
            };
            co_await store_->visit(tape.name(), std::move(all), std::move(each));
            co_return;
        }
        TapeQuery query = filtered();
        TapeQuery newest = std::move(query).newest_first().limit(arguments_.limit);
        std::vector<TapeEntry> entries = co_await tape.query(std::move(newest));
        std::reverse(entries.begin(), entries.end());
        for (const TapeEntry& entry : entries) print(entry);
    }

    Task<void> search(Tape tape) {
        bub::TapeSearch wanted;
        wanted.text = arguments_.text;
        wanted.kinds = arguments_.kinds;
        wanted.from = from_;
        wanted.to = to_;
        wanted.limit = arguments_.limit == 0 ? static_cast<std::size_t>(-1) : arguments_.limit;
        const std::vector<TapeEntry> found = co_await tape.search(std::move(wanted));
        for (const TapeEntry& entry : found) print(entry);
        if (found.empty()) err_ << "No entries match.\n";
    }

    Task<void> anchors(Tape tape) {
        const std::size_t limit =
            arguments_.limit == 0 ? static_cast<std::size_t>(-1) : arguments_.limit;
        const std::vector<TapeEntry> found = co_await store_->anchors(tape.name(), limit);
        for (const TapeEntry& entry : found) print(entry);
    }

    Task<void> export_lines(Tape tape) {
        std::ofstream file;
        if (!arguments_.output.empty()) file = open_export();
        std::ostream& to = arguments_.output.empty() ? out_ : file;
        if (arguments_.messages) {
            const std::vector<bub::TapeAnchor> last = co_await tape.anchors(1);
            bub::ContextStart start =
                last.empty() ? bub::ContextStart::beginning() : bub::ContextStart::last_anchor();
            const JsonArray messages = co_await tape.context(std::move(start));
            data_output(to, safe_json(messages) + "\n");
        } else {
            TapeQuery all = filtered();
            std::function<bool(const TapeEntry&)> each = [&to](const TapeEntry& entry) {
                data_output(to, safe_json_text(bub::tape_line(entry)));
                return to.good();
            };
            co_await store_->visit(tape.name(), std::move(all), std::move(each));
        }
        to.flush();
        if (!to) throw Error(ErrorCode::io, "the export was not written completely");
    }

    std::ofstream open_export() const {
        try {
            return create_file(arguments_.output, arguments_.force);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::invalid_argument) throw;
            throw Error(ErrorCode::invalid_argument,
                        std::string(error.what()) + "; choose another name, or add --force");
        }
    }

    const TapeArguments arguments_;
    std::ostream& out_;
    TerminalStream shown_;
    TerminalStream err_;
    std::shared_ptr<bub::SessionTapeStore> store_;
    std::string from_;  // in UTC, as the entries
    std::string to_;
};

}  // namespace

int show_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err) {
    if (arguments.what == TapeArguments::What::copy) return copy_tapes(arguments, out, err);
    Show show(arguments, out, err);
    return run(show.perform());
}

int tape_command(const CommandLine& line) { return show_tapes(line.tape, std::cout, std::cerr); }

}  // namespace cubepi::app
