#include "login_prompt.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_server.hpp>

#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view host = "http://127.0.0.1:";
constexpr std::string_view path = "/callback";
constexpr std::size_t max_line = 16 * 1024;

/// Returns the port of a redirect to this program; nothing if another program receives it.
std::optional<std::uint16_t> own_port(std::string_view uri) {
    if (!uri.starts_with(host) || !uri.ends_with(path)) return std::nullopt;
    const std::string_view digits = uri.substr(host.size(), uri.size() - host.size() - path.size());
    std::uint16_t port = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return port;
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
        co_return std::string(host) + std::to_string(server_->port()) + std::string(path);
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
            routes_->add("GET", std::string(path),
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

std::shared_ptr<McpLoginUi> login_prompt(std::ostream& out) {
    return std::make_shared<LoginPrompt>(out);
}

}  // namespace cubepi::app
