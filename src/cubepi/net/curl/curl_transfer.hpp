#pragma once

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

namespace cubepi::detail {

class CurlEngine;

/// One exchange, in the form required by libcurl.
struct TransferPlan {
    HttpRequest request;
    std::string url;
    std::string server;  ///< "host:port", for messages
    std::string proxy;   ///< the value of CURLOPT_PROXY; empty: none
    std::string proxy_server;
    std::vector<std::string> resolve;     ///< CURLOPT_RESOLVE entries
    std::vector<std::string> connect_to;  ///< CURLOPT_CONNECT_TO entries
    bool own_connection = false;          ///< neither use nor leave a pooled connection
    std::string ca_file;
    std::size_t max_header_bytes = 0;
    std::size_t high_water = 0;  ///< unread body bytes at which receiving is paused
};

/// The progress of an exchange. Only increases.
enum class TransferStage { connecting, sending, waiting, head, ended };

/// One libcurl easy handle and the data received. The engine side runs on the engine's executor, the consumer side on
/// the executor on which send() was awaited; shared data is protected by the mutex.
class CurlTransfer : public std::enable_shared_from_this<CurlTransfer> {
public:
    CurlTransfer(std::shared_ptr<CurlEngine> engine, TransferPlan plan);
    ~CurlTransfer();

    // The consumer's side.

    /// Waits until the exchange is beyond `seen`. Throws its failure if it failed before the head arrived.
    Task<TransferStage> beyond(TransferStage seen);
    Task<bool> read(std::string& out);
    bool read_ready(std::string& out);
    /// Ends the exchange: its connection or stream is closed now, and readers get `failure` after the data that has
    /// arrived. Null: there are no more readers.
    void close(std::exception_ptr failure) noexcept;
    HttpResponse take_head();
    const TransferPlan& plan() const noexcept { return plan_; }
    /// Returns the number of body bytes passed to the connection; only counted for large bodies.
    std::size_t sent() const noexcept { return sent_; }

    // The engine's side.

    CURL* easy() const noexcept { return easy_; }
    bool prepare() noexcept;
    void unpause() noexcept;
    /// Returns the local port of the connection in use, which identifies connections in libcurl's callbacks; 0: none.
    int connection() const noexcept { return connection_; }
    void connection(int local_port) noexcept { connection_ = local_port; }
    /// Makes libcurl write out the data it buffers for the connection.
    void flush_connection() noexcept;
    /// Prevents reuse of the connection after this exchange is removed, unless others use it.
    void forbid_reuse() noexcept;
    void finished(CURLcode code) noexcept;
    /// Called when the handle has left the multi handle: libcurl will not call back again.
    void release_handle() noexcept;
    /// Called when the executor's context is destroyed: no coroutine will be resumed.
    void context_gone() noexcept;

private:
    static std::size_t on_write(char* data, std::size_t size, std::size_t count,
                                void* self) noexcept;
    static std::size_t on_header(char* data, std::size_t size, std::size_t count,
                                 void* self) noexcept;
    static std::size_t on_read(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept;
    static int on_seek(void* self, curl_off_t offset, int origin) noexcept;
    static int on_connected(void* self, char*, char*, int, int local_port) noexcept;

    bool may_start() noexcept;
    bool set_options();
    bool set_method();
    bool set_headers();
    bool set_lists();
    void receive(std::string_view bytes);
    bool paused_now() noexcept;
    void receive_header(std::string_view line);
    void refuse(std::exception_ptr failure) noexcept;
    void reach(TransferStage stage) noexcept;
    void end_with(std::exception_ptr failure) noexcept;
    void wake_locked();
    bool take_locked(std::string& out, bool& resume);
    Task<> wait();

    std::shared_ptr<CurlEngine> engine_;
    TransferPlan plan_;

    CURL* easy_ = nullptr;
    curl_slist* headers_list_ = nullptr;
    curl_slist* resolve_list_ = nullptr;
    curl_slist* connect_to_list_ = nullptr;
    char error_text_[CURL_ERROR_SIZE] = {};
    std::atomic<std::size_t> sent_{0};
    int connection_ = 0;
    bool started_ = false;  ///< libcurl has begun to send the request
    long written_before_ = 0;
    std::size_t header_bytes_ = 0;
    std::size_t received_ = 0;
    std::exception_ptr own_failure_;  ///< why a callback of this class ended the transfer

    mutable std::mutex mutex_;
    TransferStage stage_ = TransferStage::connecting;
    bool have_head_ = false;
    HttpResponse response_;
    std::string pending_;
    std::exception_ptr failure_;
    bool paused_ = false;
    bool waiting_ = false;
    bool closed_ = false;
    Executor consumer_;
    std::optional<WaitList> waiters_;
};

}  // namespace cubepi::detail
