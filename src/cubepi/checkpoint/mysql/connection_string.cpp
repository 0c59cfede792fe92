#include <cubepi/checkpoint/mysql/connection_string.hpp>

#include <cubepi/checkpoint/mysql_options.hpp>

#include <charconv>
#include <cstdlib>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void refuse(const std::string& why) {
    throw CheckpointerError(ErrorCode::invalid_argument,
                            "the MySQL connection string cannot be parsed: " + why +
                                "; write mysql://USER:PASSWORD@HOST:PORT/DATABASE with special "
                                "characters as %XX");
}

std::string decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        unsigned value = 0;
        const char* const start = text.data() + i + 1;
        const char* const end = start + 2;
        if (text.size() - i < 3 || std::from_chars(start, end, value, 16).ptr != end || value == 0)
            refuse("a '%' is not followed by two hexadecimal digits");
        out += static_cast<char>(value);
        i += 2;
    }
    return out;
}

MyTls tls_mode(const std::string& text) {
    constexpr const char* names[] = {"disabled", "preferred", "required", "verify-ca",
                                     "verify-identity"};
    for (unsigned i = 0; i < 5; ++i) {
        if (text == names[i]) return static_cast<MyTls>(i);
    }
    refuse(
        "ssl-mode must be 'disabled', 'preferred', 'required', 'verify-ca' or "
        "'verify-identity'");
}

}  // namespace

MyParameters::MyParameters(std::string_view text) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos ||
        (text.substr(0, scheme) != "mysql" && text.substr(0, scheme) != "mariadb"))
        refuse("it does not start with mysql:// or mariadb://");
    text.remove_prefix(scheme + 3);
    const std::size_t query = text.find('?');
    const std::string_view path = text.substr(0, query);
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos || slash + 1 == path.size())
        refuse("the name of the database is missing");
    read_authority(path.substr(0, slash));
    database = decoded(path.substr(slash + 1));
    if (query != std::string_view::npos) read_parameters(text.substr(query + 1));
    // Without certificates of its own to check with, the client library checks nothing.
    if (tls == MyTls::verify_ca && ca.empty())
        refuse(
            "ssl-mode=verify-ca needs the certificates to check the server's with; add "
            "ssl-ca=FILE");
    if (host.empty() && socket.empty()) host = "127.0.0.1";
    if (password.empty()) {
        if (const char* const value = std::getenv("MYSQL_PWD")) password = value;
    }
}

void MyParameters::read_authority(std::string_view text) {
    const std::size_t at = text.rfind('@');
    if (at != std::string_view::npos) {
        const std::string_view login = text.substr(0, at);
        const std::size_t colon = login.find(':');
        user = decoded(login.substr(0, colon));
        if (colon != std::string_view::npos) password = decoded(login.substr(colon + 1));
        text.remove_prefix(at + 1);
    }
    const bool is_ipv6 = text.starts_with('[');
    const std::size_t end = is_ipv6 ? text.find(']') : text.find(':');
    host = decoded(text.substr(is_ipv6 ? 1 : 0, is_ipv6 ? end - 1 : end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(is_ipv6 ? end + 1 : end);
    if (text.empty()) return;
    text.remove_prefix(1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), port);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || port == 0 ||
        port > 65535)
        refuse("the port is not a number from 1 to 65535");
}

void MyParameters::read_parameters(std::string_view text) {
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(one.size() + 1, text.size()));
        const std::size_t equals = std::min(one.find('='), one.size());
        const std::string_view name = one.substr(0, equals);
        const std::string value = decoded(one.substr(std::min(equals + 1, one.size())));
        if (name == "socket") {
            socket = value;
        } else if (name == "ssl-mode") {
            tls = tls_mode(value);
        } else if (name == "ssl-ca") {
            ca = value;
        } else if (name == "ssl-cert") {
            certificate = value;
        } else if (name == "ssl-key") {
            key = value;
        } else {
            refuse("it has a parameter other than socket, ssl-mode, ssl-ca, ssl-cert and ssl-key");
        }
    }
}

bool MyParameters::has_name() const {
    in6_addr unused{};
    return socket.empty() && inet_pton(AF_INET, host.c_str(), &unused) != 1 &&
           inet_pton(AF_INET6, host.c_str(), &unused) != 1;
}

std::string MyParameters::description() const {
    const std::string where = socket.empty() ? host + ":" + std::to_string(port) : socket;
    return "MySQL database '" + database + "' on " + where;
}

std::string MyParameters::without_secrets(std::string text) const {
    if (password.empty()) return text;
    for (std::size_t at = text.find(password); at != std::string::npos;
         at = text.find(password, at + 3)) {
        text.replace(at, password.size(), "***");
    }
    return text;
}

}  // namespace cubepi::detail

namespace cubepi {

std::string mysql_description(const MySQLOptions& options) {
    return detail::MyParameters(options.connection).description();
}

}  // namespace cubepi
