#include "mcp_settings.hpp"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../config/paths.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_file_bytes = 64 * 1024;
constexpr auto lock_limit = std::chrono::seconds(30);
constexpr auto lock_pause = std::chrono::milliseconds(50);

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason,
                         ErrorCode code = ErrorCode::io) {
    throw Error(code, path.string() + ": " + reason);
}

/// Returns nothing if the file does not exist.
std::optional<std::string> read_file(const std::filesystem::path& path, int flags) {
    const detail::UniqueFd fd = detail::open_file(path.c_str(), O_RDONLY | O_NONBLOCK | flags);
    if (!fd && errno == ENOENT) return std::nullopt;
    struct stat status = {};
    if (!fd || ::fstat(fd.get(), &status) != 0) refuse(path, detail::errno_text(errno));
    const std::string_view kind = detail::kind_if_not_regular(status.st_mode);
    if (!kind.empty()) refuse(path, "is " + std::string(kind));
    std::string text(max_file_bytes + 1, '\0');
    const std::optional<std::size_t> size = detail::read_at(fd.get(), 0, text.data(), text.size());
    if (!size) refuse(path, detail::errno_text(errno));
    if (*size > max_file_bytes) refuse(path, "is too large");
    text.resize(*size);
    return text;
}

McpCredentials read_credentials(const std::filesystem::path& path, const std::string& server,
                                const std::string& url) {
    const std::optional<std::string> text = read_file(path, O_NOFOLLOW);
    if (!text) return {};
    try {
        const Json json = parse_json(*text);
        if (!json.is_object()) throw Error(ErrorCode::parse, "it is not an object");
        const JsonObject& object = json.get_object();
        const JsonObject* credentials = detail::object_member(object, "credentials");
        if (!credentials || detail::string_member(object, "url") != url) return {};
        return mcp_credentials_from_json(*credentials);
    } catch (const Error&) {
        // The error of the reader could contain a part of the file.
        refuse(path,
               "is damaged; log in again: cubepi mcp logout " + server + " && cubepi mcp login " +
                   server,
               ErrorCode::storage_corrupt);
    }
}

void write_credentials(const std::filesystem::path& path, const std::string& url,
                       const McpCredentials& credentials) {
    make_private_directory(path, "XDG_DATA_HOME");
    JsonObject json;
    json["url"] = url;
    json["credentials"] = to_json(credentials);
    std::string fresh = path.string() + ".XXXXXX";
    detail::UniqueFd fd(::mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile file(std::move(fd), fresh);
    const bool is_done = file && detail::write_all(file.get(), json_text(json)) &&
                         detail::sync_file(file.get()) && file.replace(path);
    if (!is_done) refuse(path, "cannot be written: " + detail::errno_text(errno));
}

class CredentialFile final : public McpCredentialStore {
public:
    CredentialFile(std::string server, std::string url, std::shared_ptr<const Runtime> runtime)
        : server_(std::move(server)),
          path_(mcp_credentials_path(server_)),
          url_(std::move(url)),
          runtime_(std::move(runtime)) {}

    Task<McpCredentials> load() override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        auto work = [path = path_, server = server_, url = url_] {
            return read_credentials(path, server, url);
        };
        co_return co_await offload(*runtime->workers, std::move(work));
    }

    Task<> save(McpCredentials credentials) override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        auto work = [path = path_, url = url_, credentials = std::move(credentials)] {
            write_credentials(path, url, credentials);
        };
        co_await offload(*runtime->workers, std::move(work));
    }

    /// Waits without blocking the event loop, and not for long: the lock only spares a login.
    Task<std::shared_ptr<void>> lock() override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        make_private_directory(path_, "XDG_DATA_HOME");
        const std::filesystem::path path = path_.string() + ".lock";
        auto held = std::make_shared<detail::UniqueFd>(
            detail::open_file(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW));
        if (!*held) refuse(path, "cannot be opened: " + detail::errno_text(errno));
        const Clock::time_point end = deadline_after(runtime->clock->now(), lock_limit);
        while (!detail::try_flock(held->get(), detail::LockKind::exclusive)) {
            if (errno != EWOULDBLOCK || runtime->clock->now() >= end) break;
            co_await runtime->clock->sleep_for(lock_pause);
        }
        co_return held;
    }

private:
    const std::string server_;
    const std::filesystem::path path_;
    const std::string url_;
    const std::shared_ptr<const Runtime> runtime_;
};

constexpr std::string_view local_host = "http://127.0.0.1:";
constexpr std::string_view callback_path = "/callback";
constexpr std::size_t max_line = 16 * 1024;

/// Returns the port of a redirect to this program; nothing if another program receives it.
std::optional<std::uint16_t> own_port(std::string_view uri) {
    if (!uri.starts_with(local_host) || !uri.ends_with(callback_path)) return std::nullopt;
    const std::string_view digits =
        uri.substr(local_host.size(), uri.size() - local_host.size() - callback_path.size());
    return detail::parsed_number<std::uint16_t>(digits);
}

bool has_state(std::string_view query, const std::string& state) {
    const std::string wanted = "state=" + state;
    while (!query.empty()) {
        const std::string_view one = query.substr(0, query.find('&'));
        if (one == wanted) return true;
        query.remove_prefix(one.size() == query.size() ? one.size() : one.size() + 1);
    }
    return false;
}

HttpServerResponse page_response(unsigned status, const std::string& text) {
    HttpServerResponse response(status, text + "\n", "text/plain; charset=utf-8");
    response.headers.set("cache-control", "no-store");
    response.headers.set("referrer-policy", "no-referrer");
    return response;
}

class LoginPrompt final : public McpLoginUi {
public:
    explicit LoginPrompt(std::ostream& out) : out_(out) {}

    Task<std::string> redirect_uri(std::string preferred) override {
        const Executor executor = co_await this_executor;
        routes_.reset();
        server_.reset();
        const std::optional<std::uint16_t> wanted = own_port(preferred);
        // A configured address of another program, or of a page that shows the code.
        if (!preferred.empty() && !wanted) co_return preferred;
        if (!wanted || !listen(executor, *wanted)) {
            if (!listen(executor, 0))
                throw Error(ErrorCode::io, "no port of 127.0.0.1 is free for the login");
        }
        co_return std::string(local_host) + std::to_string(server_->port()) +
            std::string(callback_path);
    }

    Task<std::string> open(McpLoginPage page) override {
        page_ = std::move(page);
        redirect_.reset();
        arrived_.reset();
        TerminalStream out(out_);
        out << "Open this address in a browser, and allow the access:\n\n  "
            << for_terminal(page_.url) << "\n\n"
            << "If the browser runs on another machine, it then shows an error: paste the address "
               "of that page here.\n"
            << flush_now;
        const auto wait = [this](TaskScope& scope) { return wait_for_redirect(scope); };
        std::string redirect = co_await with_task_scope(wait);
        // The response to the browser is sent first.
        if (routes_) co_await routes_->stop();
        co_return redirect;
    }

private:
    bool listen(const Executor& executor, std::uint16_t port) {
        try {
            HttpServerOptions options;
            options.port = port;
            server_ = std::make_unique<HttpServer>(executor, std::move(options));
            routes_ = std::make_unique<HttpRoutes>(*server_, "mcp login");
            routes_->add("GET", std::string(callback_path),
                         [this](HttpServerRequest request) { return answer(std::move(request)); });
            routes_->serve();
            return true;
        } catch (const Error&) {
            routes_.reset();
            server_.reset();
            return false;
        }
    }

    /// Other pages and programs can reach the port too; without the state they change nothing.
    Task<HttpServerResponse> answer(HttpServerRequest request) {
        if (page_.state.empty() || !has_state(request.query, page_.state))
            co_return page_response(400, "This is not the answer to the login in progress.");
        take(page_.redirect_uri + "?" + request.query);
        co_return page_response(200, "Done: return to the terminal. You can close this page.");
    }

    Task<std::string> wait_for_redirect(TaskScope& scope) {
        scope.spawn(read_lines());
        co_await arrived_.wait();
        scope.cancel();
        co_return *redirect_;
    }

    /// Ends without a result at the end of standard input: the browser may still answer.
    Task<> read_lines() {
        const Executor executor = co_await this_executor;
        LineInput input(executor);
        for (;;) {
            std::optional<std::string> line = co_await input.next(max_line);
            if (!line) co_return;
            const std::string text(detail::trimmed(*line));
            if (text.empty()) continue;
            if (text.starts_with(page_.redirect_uri + "?")) {
                take(text);
                co_return;
            }
            TerminalStream(out_) << "That is not the address; it begins with "
                                 << for_terminal(page_.redirect_uri) << "\n"
                                 << flush_now;
        }
    }

    void take(std::string url) {
        if (redirect_) return;
        redirect_ = std::move(url);
        arrived_.set();
    }

    std::ostream& out_;
    McpLoginPage page_;
    std::optional<std::string> redirect_;
    AsyncEvent arrived_;
    std::unique_ptr<HttpServer> server_;
    std::unique_ptr<HttpRoutes> routes_;
};

}  // namespace

std::shared_ptr<McpCredentialStore> credential_file(const std::string& server,
                                                    const std::string& url,
                                                    std::shared_ptr<const Runtime> runtime) {
    return std::make_shared<CredentialFile>(server, url, std::move(runtime));
}

bool remove_credential_file(const std::string& server) {
    const std::filesystem::path path = mcp_credentials_path(server);
    if (::unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    refuse(path, "cannot be removed: " + detail::errno_text(errno));
}

std::string read_small_file(const std::filesystem::path& path) {
    std::optional<std::string> text = read_file(path, 0);
    if (!text) refuse(path, "does not exist");
    return std::move(*text);
}

std::shared_ptr<McpLoginUi> login_prompt(std::ostream& out) {
    return std::make_shared<LoginPrompt>(out);
}

}  // namespace cubepi::app
