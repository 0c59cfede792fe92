#include <cubepi/net/curl/curl_transfer.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/curl/curl_engine.hpp>
#include <cubepi/net/network_error.hpp>

namespace cubepi::detail {
namespace {

// Small bodies are sent in one packet with their headers, which libcurl does only for its own copy of the body; for
// large ones the time at which the last byte was sent matters, which only a callback reports.
constexpr std::size_t one_piece_limit = 32 * 1024;

// Disabled: all timeouts are implemented here (D16). Zero would mean libcurl's own default of 300 s.
constexpr long out_of_reach_ms = 1'000'000'000;

bool append(curl_slist*& list, const std::string& text) noexcept {
    curl_slist* longer = curl_slist_append(list, text.c_str());
    if (longer == nullptr) return false;
    list = longer;
    return true;
}

template <class T>
bool set(CURL* easy, CURLoption option, T value) noexcept {
    return curl_easy_setopt(easy, option, value) == CURLE_OK;
}

std::exception_ptr network_error(ErrorCode code, const std::string& host, bool transient,
                                 const std::string& text) {
    return std::make_exception_ptr(NetworkError(code, host, transient, text));
}

NetworkError headers_too_large(const TransferPlan& plan) {
    return NetworkError(ErrorCode::too_large, plan.server, false,
                        plan.server + " sent response headers of more than " +
                            std::to_string(plan.max_header_bytes) + " bytes.");
}

// Returns the system's error message if libcurl stored it ("Connection refused").
std::string reason(CURL* easy, CURLcode code) {
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    if (number != 0) return errno_text(static_cast<int>(number));
    return curl_easy_strerror(code);
}

/// Returns true if there is no descriptor left for a socket.
bool is_out_of_descriptors(CURL* easy) {
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    return number == EMFILE || number == ENFILE;
}

std::exception_ptr cannot_connect(CURL* easy, CURLcode code, const TransferPlan& plan) {
    if (is_out_of_descriptors(easy)) {
        return network_error(ErrorCode::io, plan.server, true,
                             "Cannot connect to " + plan.server + ": " + reason(easy, code) +
                                 ". Raise the limit (ulimit -n).");
    }
    if (!plan.proxy.empty()) {
        return network_error(
            ErrorCode::proxy, plan.proxy_server, true,
            "Cannot connect to the proxy " + plan.proxy_server + ": " + reason(easy, code) +
                ". Check the proxy variables (http_proxy, https_proxy, all_proxy), or exempt " +
                plan.server + " with no_proxy.");
    }
    return network_error(ErrorCode::connect, plan.server, true,
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
    return network_error(ErrorCode::tls, plan.server, cut_off, text);
}

std::exception_ptr closed_without_answer(const TransferPlan& plan) {
    return network_error(
        ErrorCode::disconnected, plan.server, true,
        plan.server +
            " closed the connection without an answer. Try again; if it stays so, check "
            "that the server speaks this protocol on this port.");
}

std::exception_ptr proxy_failed(long answer, const TransferPlan& plan) {
    std::string text = "The proxy " + plan.proxy_server + " did not connect to " + plan.server;
    if (answer != 0) text += ": it answered " + std::to_string(answer);
    text += answer == 407
                ? ". Put user and password of the proxy into the proxy variable."
                : ". Check the proxy variables (http_proxy, https_proxy, all_proxy, no_proxy).";
    return network_error(ErrorCode::proxy, plan.proxy_server, answer >= 500, text);
}

std::exception_ptr name_failed(const TransferPlan& plan, const std::string& server) {
    return network_error(server == plan.proxy_server ? ErrorCode::proxy : ErrorCode::dns, server,
                         false,
                         "Cannot find " + server +
                             ": the name does not resolve. Check its spelling and the network.");
}

// Returns the typed error of a transfer that libcurl ended with `code`. Never contains a path, a header or a password.
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
        case CURLE_GOT_NOTHING: return closed_without_answer(plan);
        case CURLE_PARTIAL_FILE:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_SSL_SHUTDOWN_FAILED:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
        case CURLE_HTTP3:
            return network_error(ErrorCode::disconnected, plan.server, true,
                                 "The connection to " + plan.server +
                                     " broke before the answer was complete (" +
                                     curl_easy_strerror(code) + "). Try again.");
        case CURLE_FAILED_INIT:
            return network_error(ErrorCode::io, plan.server, true,
                                 "Cannot begin a transfer to " + plan.server +
                                     ": there are not enough descriptors or memory. Raise the "
                                     "limits (ulimit -n).");
        // libcurl 7.88 reports a header line beyond its own limit this way.
        case CURLE_OUT_OF_MEMORY: return std::make_exception_ptr(headers_too_large(plan));
        case CURLE_URL_MALFORMAT:
            return std::make_exception_ptr(Error(ErrorCode::invalid_argument,
                                                 "The URL for " + plan.server +
                                                     " or the proxy's is not one that "
                                                     "can be used: " +
                                                     std::string(curl_easy_strerror(code)) + "."));
        default:
            return network_error(ErrorCode::protocol, plan.server, false,
                                 plan.server + " sent an answer that cannot be read (" +
                                     curl_easy_strerror(code) +
                                     "). Check that this is the address of an HTTP server.");
    }
}

// Returns the error of an exchange that the server ended without a status line.
std::exception_ptr no_answer(const TransferPlan& plan) {
    return network_error(
        ErrorCode::protocol, plan.server, false,
        plan.server +
            " ended its answer before it began. Check that this is the address of an HTTP server.");
}

}  // namespace

CurlTransfer::CurlTransfer(std::shared_ptr<CurlEngine> engine, TransferPlan plan)
    : engine_(std::move(engine)), plan_(std::move(plan)), waiters_(std::in_place) {}

CurlTransfer::~CurlTransfer() { release_handle(); }

void CurlTransfer::release_handle() noexcept {
    if (easy_ != nullptr) curl_easy_cleanup(std::exchange(easy_, nullptr));
    curl_slist_free_all(std::exchange(headers_list_, nullptr));
    curl_slist_free_all(std::exchange(resolve_list_, nullptr));
    curl_slist_free_all(std::exchange(connect_to_list_, nullptr));
}

// ---- libcurl's options

bool CurlTransfer::prepare() noexcept {
    try {
        easy_ = curl_easy_init();
        return easy_ != nullptr && set_options() && set_method() && set_headers() && set_lists();
    } catch (...) {
        return false;
    }
}

bool CurlTransfer::set_options() {
    bool ok =
        set(easy_, CURLOPT_PRIVATE, this) && set(easy_, CURLOPT_ERRORBUFFER, error_text_) &&
        set(easy_, CURLOPT_URL, plan_.url.c_str()) &&
        set(easy_, CURLOPT_PROTOCOLS_STR, "http,https") && set(easy_, CURLOPT_NOSIGNAL, 1L) &&
        set(easy_, CURLOPT_TCP_KEEPALIVE, 1L) && set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
        set(easy_, CURLOPT_WRITEFUNCTION, &on_write) && set(easy_, CURLOPT_WRITEDATA, this) &&
        set(easy_, CURLOPT_HEADERFUNCTION, &on_header) && set(easy_, CURLOPT_HEADERDATA, this) &&
        set(easy_, CURLOPT_PREREQFUNCTION, &on_connected) && set(easy_, CURLOPT_PREREQDATA, this) &&
        engine_->set_socket_options(easy_);
    // Compressed responses are decompressed, but compression is not requested (set_headers), because it would delay a
    // stream.
    ok = ok && set(easy_, CURLOPT_ACCEPT_ENCODING, "");
    ok = ok && set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    // Several requests to one host wait for the first connection and share it if it uses HTTP/2. Only TLS negotiates
    // that early: without TLS, libcurl would let them wait until the first response is complete.
    if (plan_.url.starts_with("https:")) ok = ok && set(easy_, CURLOPT_PIPEWAIT, 1L);
    ok = ok && set(easy_, CURLOPT_SSL_VERIFYPEER, 1L) && set(easy_, CURLOPT_SSL_VERIFYHOST, 2L) &&
         set(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    // The system's certificates remain trusted: libcurl also reads its CAPATH.
    if (!plan_.ca_file.empty()) {
        ok = ok && set(easy_, CURLOPT_CAINFO, plan_.ca_file.c_str()) &&
             set(easy_, CURLOPT_PROXY_CAINFO, plan_.ca_file.c_str());
    }
    ok = ok && set(easy_, CURLOPT_CONNECTTIMEOUT_MS, out_of_reach_ms) &&
         set(easy_, CURLOPT_DNS_CACHE_TIMEOUT, -1L) && set(easy_, CURLOPT_QUICK_EXIT, 1L);
    // The empty strings prevent libcurl from reading the environment again: the proxy is already chosen.
    ok = ok && set(easy_, CURLOPT_PROXY, plan_.proxy.c_str()) && set(easy_, CURLOPT_NOPROXY, "");
    if (plan_.own_connection) {
        ok = ok && set(easy_, CURLOPT_FRESH_CONNECT, 1L) && set(easy_, CURLOPT_FORBID_REUSE, 1L);
    }
    return ok;
}

bool CurlTransfer::set_method() {
    const HttpRequest& request = plan_.request;
    if (request.method == "HEAD") return set(easy_, CURLOPT_NOBODY, 1L);
    if (request.body.empty() && request.method == "GET") return set(easy_, CURLOPT_HTTPGET, 1L);
    if (request.body.empty() && request.method != "POST" && request.method != "PUT" &&
        request.method != "PATCH") {
        return set(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
    bool ok = set(easy_, CURLOPT_POST, 1L) &&
              set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    if (request.body.size() <= one_piece_limit) {
        ok = ok && set(easy_, CURLOPT_POSTFIELDS, request.body.c_str());
    } else {
        ok = ok && set(easy_, CURLOPT_READFUNCTION, &on_read) &&
             set(easy_, CURLOPT_READDATA, this) && set(easy_, CURLOPT_SEEKFUNCTION, &on_seek) &&
             set(easy_, CURLOPT_SEEKDATA, this) &&
             set(easy_, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    }
    if (request.method != "POST")
        ok = ok && set(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    return ok;
}

bool CurlTransfer::set_headers() {
    const HttpHeaders& headers = plan_.request.headers;
    bool ok = true;
    for (const HttpHeader& header : headers) {
        // "Name;" is libcurl's notation for a header without a value.
        ok = ok && append(headers_list_, header.value.empty() ? header.name + ";"
                                                              : header.name + ": " + header.value);
    }
    if (headers.find("user-agent") == nullptr)
        ok = ok && append(headers_list_, "User-Agent: cubepi");
    // Prevents libcurl from adding headers that were not requested.
    for (const char* name : {"Expect", "Content-Type", "Accept-Encoding"}) {
        if (headers.find(name) == nullptr)
            ok = ok && append(headers_list_, std::string(name) + ":");
    }
    return ok && set(easy_, CURLOPT_HTTPHEADER, headers_list_);
}

bool CurlTransfer::set_lists() {
    bool ok = true;
    for (const std::string& entry : plan_.resolve) ok = ok && append(resolve_list_, entry);
    for (const std::string& entry : plan_.connect_to) ok = ok && append(connect_to_list_, entry);
    if (resolve_list_ != nullptr) ok = ok && set(easy_, CURLOPT_RESOLVE, resolve_list_);
    if (connect_to_list_ != nullptr) ok = ok && set(easy_, CURLOPT_CONNECT_TO, connect_to_list_);
    return ok;
}

// ---- libcurl's callbacks

std::size_t CurlTransfer::on_write(char* data, std::size_t size, std::size_t count,
                                   void* self) noexcept {
    auto* transfer = static_cast<CurlTransfer*>(self);
    const std::size_t bytes = size * count;
    try {
        const std::lock_guard lock(transfer->mutex_);
        if (!transfer->closed_ && transfer->pending_.size() >= transfer->plan_.high_water) {
            transfer->paused_ = true;
            return CURL_WRITEFUNC_PAUSE;
        }
        transfer->receive(std::string_view(data, bytes));
        return bytes;
    } catch (...) {
        transfer->refuse(std::current_exception());
        return CURL_WRITEFUNC_PAUSE;
    }
}

void CurlTransfer::receive(std::string_view bytes) {
    if (closed_ || stage_ == TransferStage::ended) return;
    const std::size_t limit = plan_.request.max_response_bytes;
    if (limit != 0 && bytes.size() > limit - received_) {
        throw NetworkError(ErrorCode::too_large, plan_.server, false,
                           plan_.server + " sent more than the " + std::to_string(limit) +
                               " bytes that this request allows (max_response_bytes).");
    }
    received_ += bytes.size();
    pending_.append(bytes);
    wake_locked();
}

std::size_t CurlTransfer::on_header(char* data, std::size_t size, std::size_t count,
                                    void* self) noexcept {
    auto* transfer = static_cast<CurlTransfer*>(self);
    const std::size_t bytes = size * count;
    try {
        transfer->receive_header(std::string_view(data, bytes));
    } catch (...) {
        transfer->refuse(std::current_exception());
    }
    return bytes;
}

/// Ends the exchange from inside a callback. It is not an error for libcurl, which otherwise would keep an HTTP/2
/// connection without telling the server to stop.
void CurlTransfer::refuse(std::exception_ptr failure) noexcept {
    end_with(std::move(failure));
    engine_->abort_soon(shared_from_this());
}

void CurlTransfer::receive_header(std::string_view line) {
    const std::lock_guard lock(mutex_);
    // Lines after the body are trailers, which are ignored.
    if (stage_ >= TransferStage::head) return;
    header_bytes_ += line.size();
    if (header_bytes_ > plan_.max_header_bytes) throw headers_too_large(plan_);
    if (line.starts_with("HTTP/")) {
        response_.headers = HttpHeaders();
        const std::size_t space = line.find(' ');
        response_.version =
            std::string(line.substr(5, space == std::string_view::npos ? space : space - 5));
        long status = 0;
        curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
        response_.status = static_cast<int>(status);
        return;
    }
    const std::string_view text = trimmed(line);
    if (text.empty()) {
        if (response_.status >= 200 || response_.status == 101) {
            stage_ = TransferStage::head;
            have_head_ = true;
            wake_locked();
        }
        return;
    }
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos && colon > 0) {
        response_.headers.add(std::string(trimmed(text.substr(0, colon))),
                              std::string(trimmed(text.substr(colon + 1))));
    }
}

std::size_t CurlTransfer::on_read(char* data, std::size_t size, std::size_t count,
                                  void* self) noexcept {
    auto* transfer = static_cast<CurlTransfer*>(self);
    const std::string& body = transfer->plan_.request.body;
    const std::size_t sent = transfer->sent_;
    const std::size_t bytes = std::min(size * count, body.size() - sent);
    std::memcpy(data, body.data() + sent, bytes);
    transfer->sent_ = sent + bytes;
    if (sent + bytes == body.size()) transfer->reach(TransferStage::waiting);
    return bytes;
}

int CurlTransfer::on_seek(void* self, curl_off_t offset, int origin) noexcept {
    auto* transfer = static_cast<CurlTransfer*>(self);
    if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
    if (static_cast<std::size_t>(offset) > transfer->plan_.request.body.size())
        return CURL_SEEKFUNC_FAIL;
    transfer->sent_ = static_cast<std::size_t>(offset);
    return CURL_SEEKFUNC_OK;
}

int CurlTransfer::on_connected(void* self, char*, char*, int, int local_port) noexcept {
    auto* transfer = static_cast<CurlTransfer*>(self);
    try {
        transfer->engine_->connected(*transfer, local_port);
    } catch (...) {
        transfer->own_failure_ = std::current_exception();
        return CURL_PREREQFUNC_ABORT;
    }
    if (!transfer->may_start()) {
        transfer->own_failure_ = closed_without_answer(transfer->plan_);
        return CURL_PREREQFUNC_ABORT;
    }
    const bool one_piece = transfer->plan_.request.body.size() <= one_piece_limit;
    transfer->reach(one_piece ? TransferStage::waiting : TransferStage::sending);
    return CURL_PREREQFUNC_OK;
}

/// libcurl repeats a request on its own if a reused connection ends before the first byte of the answer, also after the
/// request was sent. The server may have executed it then, so that only the caller may repeat it (D15, D91). The request is
/// only started again if its method is safe, or if no byte of it was written.
bool CurlTransfer::may_start() noexcept {
    // Includes what was written to a proxy before.
    long written = 0;
    curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &written);
    if (!std::exchange(started_, true)) {
        written_before_ = written;
        return true;
    }
    const std::string& method = plan_.request.method;
    return method == "GET" || method == "HEAD" || written == written_before_;
}

// ---- the engine's side

void CurlTransfer::reach(TransferStage stage) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (stage <= stage_) return;
        stage_ = stage;
        wake_locked();
    } catch (...) {
        own_failure_ = std::current_exception();
    }
}

void CurlTransfer::unpause() noexcept {
    if (easy_ != nullptr) curl_easy_pause(easy_, CURLPAUSE_CONT);
}

void CurlTransfer::flush_connection() noexcept {
    if (easy_ == nullptr) return;
    // libcurl 7.88 collects small HTTP/2 frames, including a stream's reset, and writes them with the next data on the
    // connection. Pausing a stream triggers such a write, and leaves its flow-control window unchanged.
    if (!paused_now()) curl_easy_pause(easy_, CURLPAUSE_RECV);
    curl_easy_pause(easy_, CURLPAUSE_CONT);
}

void CurlTransfer::forbid_reuse() noexcept {
    if (easy_ != nullptr) set(easy_, CURLOPT_FORBID_REUSE, 1L);
}

bool CurlTransfer::paused_now() noexcept {
    const std::lock_guard lock(mutex_);
    return paused_;
}

void CurlTransfer::finished(CURLcode code) noexcept {
    std::exception_ptr failure = std::move(own_failure_);
    try {
        if (!failure && code != CURLE_OK) failure = transfer_error(easy_, code, error_text_, plan_);
    } catch (...) {
        failure = std::current_exception();
    }
    end_with(std::move(failure));
}

void CurlTransfer::end_with(std::exception_ptr failure) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (stage_ == TransferStage::ended) return;
        if (!failure && !have_head_) failure = no_answer(plan_);
        stage_ = TransferStage::ended;
        failure_ = std::move(failure);
        wake_locked();
    } catch (...) {
    }
}

void CurlTransfer::context_gone() noexcept {
    const std::lock_guard lock(mutex_);
    stage_ = TransferStage::ended;
    closed_ = true;
    failure_ = make_cancelled();
    waiting_ = false;
    consumer_ = Executor();
    waiters_.reset();
}

/// A waiter resumes through its own executor, never from inside libcurl.
void CurlTransfer::wake_locked() {
    if (!waiting_) return;
    waiting_ = false;
    // Released here: a body may outlive its event loop, an executor may not.
    const Executor consumer = std::exchange(consumer_, Executor());
    boost::asio::post(consumer, [self = shared_from_this()] {
        if (self->waiters_) self->waiters_->wake_all();
    });
}

// ---- the consumer's side

Task<> CurlTransfer::wait() {
    if (!waiters_) throw_cancelled();
    try {
        co_await waiters_->wait();
    } catch (...) {
        close(nullptr);
        throw;
    }
}

Task<TransferStage> CurlTransfer::beyond(TransferStage seen) {
    const Executor executor = co_await this_executor;
    while (true) {
        {
            const std::lock_guard lock(mutex_);
            if (stage_ == TransferStage::ended && !have_head_) std::rethrow_exception(failure_);
            if (stage_ > seen) co_return stage_;
            consumer_ = executor;
            waiting_ = true;
        }
        co_await wait();
    }
}

bool CurlTransfer::take_locked(std::string& out, bool& resume) {
    if (pending_.empty()) return false;
    if (out.empty()) {
        // The two buffers are swapped, so that in the long run neither side allocates.
        out.swap(pending_);
    } else {
        out.append(pending_);
    }
    pending_.clear();
    resume = std::exchange(paused_, false);
    return true;
}

bool CurlTransfer::read_ready(std::string& out) {
    bool resume = false;
    bool taken = false;
    {
        const std::lock_guard lock(mutex_);
        taken = take_locked(out, resume);
    }
    if (resume) engine_->resume(shared_from_this());
    return taken;
}

Task<bool> CurlTransfer::read(std::string& out) {
    if (read_ready(out)) co_return true;
    const Executor executor = co_await this_executor;
    while (true) {
        {
            const std::lock_guard lock(mutex_);
            if (pending_.empty()) {
                if (stage_ == TransferStage::ended) {
                    if (failure_) std::rethrow_exception(failure_);
                    co_return false;
                }
                consumer_ = executor;
                waiting_ = true;
            }
        }
        if (read_ready(out)) co_return true;
        co_await wait();
    }
}

void CurlTransfer::close(std::exception_ptr failure) noexcept {
    bool running = false;
    try {
        const std::lock_guard lock(mutex_);
        running = stage_ != TransferStage::ended && !closed_;
        if (!failure) {
            pending_.clear();
            pending_.shrink_to_fit();
        }
        closed_ = true;
        if (stage_ != TransferStage::ended) {
            stage_ = TransferStage::ended;
            failure_ = failure ? std::move(failure) : make_cancelled();
            wake_locked();
        }
        consumer_ = Executor();
    } catch (...) {
    }
    if (running) engine_->abort(shared_from_this());
}

HttpResponse CurlTransfer::take_head() {
    const std::lock_guard lock(mutex_);
    return std::move(response_);
}

}  // namespace cubepi::detail
