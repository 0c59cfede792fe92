#include <cubepi/net/curl/curl_error.hpp>

#include <string>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/curl/curl_transfer.hpp>

namespace cubepi::detail {
namespace {

std::exception_ptr make(ErrorCode code, const std::string& host, bool transient,
                        const std::string& text) {
    return std::make_exception_ptr(NetworkError(code, host, transient, text));
}

/// Returns the system's error message if libcurl stored it ("Connection refused").
std::string reason(CURL* easy, CURLcode code) {
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    if (number != 0) return errno_text(static_cast<int>(number));
    return curl_easy_strerror(code);
}

std::exception_ptr cannot_connect(CURL* easy, CURLcode code, const TransferPlan& plan) {
    if (!plan.proxy.empty()) {
        return make(
            ErrorCode::proxy, plan.proxy_server, true,
            "Cannot connect to the proxy " + plan.proxy_server + ": " + reason(easy, code) +
                ". Check the proxy variables (http_proxy, https_proxy, all_proxy), or exempt " +
                plan.server + " with no_proxy.");
    }
    return make(ErrorCode::connect, plan.server, true,
                "Cannot connect to " + plan.server + ": " + reason(easy, code) +
                    ". Check that the server is running and that the address is right.");
}

std::exception_ptr tls_failed(CURLcode code, const char* detail, const TransferPlan& plan) {
    // libcurl's text names the check that failed; here it contains only host and certificate names.
    const std::string why =
        detail != nullptr && detail[0] != '\0' ? detail : curl_easy_strerror(code);
    std::string text = "The TLS connection to " + plan.server + " failed: " + why + ".";
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        text +=
            " Check that the address is right; a certificate authority of your own goes into the "
            "file that "
            "SSL_CERT_FILE names.";
    } else if (code == CURLE_SSL_CACERT_BADFILE) {
        text += " Check the file that SSL_CERT_FILE names.";
    } else {
        text += " Check that the server speaks https on this port.";
    }
    // An interrupted handshake may succeed when retried, a rejected certificate never.
    const bool cut_off =
        code == CURLE_SSL_CONNECT_ERROR &&
        (why.find("SYSCALL") != std::string::npos || why.find("reset") != std::string::npos);
    return make(ErrorCode::tls, plan.server, cut_off, text);
}

std::exception_ptr proxy_failed(long answer, const TransferPlan& plan) {
    std::string text = "The proxy " + plan.proxy_server + " did not connect to " + plan.server;
    if (answer != 0) text += ": it answered " + std::to_string(answer);
    text += answer == 407
                ? ". Put user and password of the proxy into the proxy variable."
                : ". Check the proxy variables (http_proxy, https_proxy, all_proxy, no_proxy).";
    return make(ErrorCode::proxy, plan.proxy_server, answer >= 500, text);
}

std::exception_ptr name_failed(const TransferPlan& plan, const std::string& server) {
    return make(server == plan.proxy_server ? ErrorCode::proxy : ErrorCode::dns, server, false,
                "Cannot find " + server +
                    ": the name does not resolve. Check its spelling and the network.");
}

}  // namespace

std::exception_ptr transfer_error(CURL* easy, CURLcode code, const char* detail,
                                  const TransferPlan& plan) {
    long proxy_answer = 0;
    curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &proxy_answer);
    if (!plan.proxy.empty() && (code == CURLE_PROXY || proxy_answer >= 300)) {
        return proxy_failed(proxy_answer, plan);
    }
    switch (code) {
        case CURLE_COULDNT_RESOLVE_HOST: return name_failed(plan, plan.server);
        case CURLE_COULDNT_RESOLVE_PROXY: return name_failed(plan, plan.proxy_server);
        case CURLE_COULDNT_CONNECT:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_INTERFACE_FAILED: return cannot_connect(easy, code, plan);
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CIPHER:
        case CURLE_SSL_ISSUER_ERROR:
        case CURLE_SSL_INVALIDCERTSTATUS:
        case CURLE_SSL_CLIENTCERT:
        case CURLE_USE_SSL_FAILED: return tls_failed(code, detail, plan);
        case CURLE_GOT_NOTHING:
            return make(
                ErrorCode::disconnected, plan.server, true,
                plan.server +
                    " closed the connection without an answer. Try again; if it stays so, check "
                    "that the server speaks this protocol on this port.");
        case CURLE_PARTIAL_FILE:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_SSL_SHUTDOWN_FAILED:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
        case CURLE_HTTP3:
            return make(ErrorCode::disconnected, plan.server, true,
                        "The connection to " + plan.server +
                            " broke before the answer was complete (" + curl_easy_strerror(code) +
                            "). Try again.");
        // libcurl 7.88 reports a header line beyond its own limit this way.
        case CURLE_OUT_OF_MEMORY: return std::make_exception_ptr(headers_too_large(plan));
        case CURLE_URL_MALFORMAT:
            return std::make_exception_ptr(Error(ErrorCode::invalid_argument,
                                                 "The URL for " + plan.server +
                                                     " or the proxy's is not one that "
                                                     "can be used: " +
                                                     std::string(curl_easy_strerror(code)) + "."));
        default:
            return make(ErrorCode::protocol, plan.server, false,
                        plan.server + " sent an answer that cannot be read (" +
                            curl_easy_strerror(code) +
                            "). Check that this is the address of an HTTP server.");
    }
}

std::exception_ptr no_answer(const TransferPlan& plan) {
    return make(
        ErrorCode::protocol, plan.server, false,
        plan.server +
            " ended its answer before it began. Check that this is the address of an HTTP server.");
}

NetworkError headers_too_large(const TransferPlan& plan) {
    return NetworkError(ErrorCode::too_large, plan.server, false,
                        plan.server + " sent response headers of more than " +
                            std::to_string(plan.max_header_bytes) + " bytes.");
}

}  // namespace cubepi::detail
