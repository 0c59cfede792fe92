#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/net/name_resolver.hpp>

namespace cubepi::detail {

/// A URL that another party has named, after its check.
struct GuardedUrl {
    std::string text;    ///< without a fragment
    std::string origin;  ///< "https://example.org", "http://127.0.0.1:8080"; without a default port
    std::string path;    ///< as it was written; without a trailing '/' it may be empty
    std::string host;    ///< without brackets
    bool is_loopback = false;
};

/// Reads a URL by https, or by http of this machine ("localhost", 127.0.0.1, [::1]). Empty for any other text, for a user name in it
/// and for characters that other readers of URLs might read differently.
std::optional<GuardedUrl> guarded_url(std::string_view text);

/// Sends requests to URLs that a server has named. It connects only to addresses that are public, unless the server itself has a
/// private one; never to a metadata service of a cloud. It does not follow redirects, and limits time and size.
class GuardedHttp {
public:
    struct Options {
        std::string kind = "The MCP server";  ///< in errors, before its name
        std::string server = {};              ///< its name in errors
        std::string url = {};                 ///< of the server, which the user has configured
        Resolver resolve = {};                ///< empty: that of the system
        std::chrono::nanoseconds timeout = std::chrono::seconds(15);

        Options() {}
    };

    struct Reply {
        int status = 0;
        std::string location = {};  ///< of a redirect
        HttpHeaders headers = {};
        /// The body, if it is a JSON object.
        std::optional<JsonObject> json = {};
    };

    /// Throws Error(invalid_argument) if the URL of the server is not one for logins.
    GuardedHttp(Options options, std::shared_ptr<const Runtime> runtime);

    /// Throws Error: permission_denied if the URL may not be used, and those of HttpTransport. Used through a shared pointer, which
    /// the coroutine of a request owns.
    static Task<Reply> send(std::shared_ptr<const GuardedHttp> self, HttpRequest request);

    const GuardedUrl& server_url() const noexcept { return url_; }
    /// Throws Error(permission_denied) that names the party's word for the URL.
    GuardedUrl checked(std::string_view url, std::string_view what) const;
    std::string about(std::string_view text) const {
        return options_.kind + " " + options_.server + " " + std::string(text);
    }
    const Runtime& runtime() const noexcept { return *runtime_; }

private:
    static Task<std::vector<std::string>> resolved(std::shared_ptr<const GuardedHttp> self,
                                                   std::string host);
    static Task<std::vector<std::string>> checked_addresses(std::shared_ptr<const GuardedHttp> self,
                                                            std::string host);

    const Options options_;
    const std::shared_ptr<const Runtime> runtime_;
    GuardedUrl url_;
};

}  // namespace cubepi::detail
