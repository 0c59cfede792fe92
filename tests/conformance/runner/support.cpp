#include "support.hpp"

#include <climits>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <cwctype>
#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task_scope.hpp>

namespace conformance {

namespace {

std::string category_of(const cubepi::Error& error) {
    switch (error.code()) {
        case cubepi::ErrorCode::busy: return "busy";
        case cubepi::ErrorCode::no_messages: return "no_messages";
        case cubepi::ErrorCode::cannot_continue: return "cannot_continue";
        case cubepi::ErrorCode::stale_answer: return "stale_answer";
        case cubepi::ErrorCode::no_pending_request: return "no_pending_request";
        case cubepi::ErrorCode::bad_answer: return "bad_answer";
        case cubepi::ErrorCode::no_channel: return "no_channel";
        default: return "other";
    }
}

}  // namespace

std::string category_of(const std::exception_ptr& failure) {
    if (cubepi::is_cancellation(failure)) return "cancelled";
    try {
        std::rethrow_exception(failure);
    } catch (const ListenerFault&) {
        return "listener";
    } catch (const HookFault&) {
        return "hook";
    } catch (const StoreFault&) {
        return "store";
    } catch (const cubepi::TimeoutError& error) {
        return error.timeout() == "step" ? "hang" : "other";
    } catch (const cubepi::Error& error) {
        return category_of(error);
    } catch (...) {
        return "other";
    }
}

namespace {

struct Loop {
    boost::asio::io_context context{1};
    cubepi::BackgroundScope scope{context.get_executor()};
    bool done = false;
    std::exception_ptr failure;
};

cubepi::Task<> watched(Loop& loop, cubepi::Task<> task) {
    try {
        co_await std::move(task);
    } catch (...) {
        loop.failure = std::current_exception();
    }
    loop.done = true;
}

}  // namespace

bool run_within(cubepi::Task<> task, std::chrono::steady_clock::duration limit) {
    auto loop = std::make_unique<Loop>();
    const auto deadline = std::chrono::steady_clock::now() + limit;
    const auto work = boost::asio::make_work_guard(loop->context);
    loop->scope.spawn(watched(*loop, std::move(task)));
    while (!loop->done && std::chrono::steady_clock::now() < deadline)
        (void)loop->context.run_one_until(deadline);
    if (!loop->done) {
        (void)loop.release();
        return false;
    }
    // The task that ended last may still have queued handlers.
    (void)loop->context.poll();
    if (loop->failure) std::rethrow_exception(loop->failure);
    return true;
}

namespace {

/// Sets the thread's locale to UTF-8 during its lifetime.
class Utf8Locale {
public:
    Utf8Locale() {
        if (!own_) throw std::runtime_error("the locale C.UTF-8 is missing");
        before_ = uselocale(own_.get());
    }
    Utf8Locale(const Utf8Locale&) = delete;
    Utf8Locale& operator=(const Utf8Locale&) = delete;
    ~Utf8Locale() { uselocale(before_); }

private:
    struct Free {
        void operator()(locale_t locale) const { freelocale(locale); }
    };
    std::unique_ptr<std::remove_pointer_t<locale_t>, Free> own_{
        newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)};
    locale_t before_ = nullptr;
};

}  // namespace

std::string upper_case(const std::string& text) {
    const Utf8Locale utf8;
    std::wstring upper;
    std::mbstate_t state = {};
    for (std::size_t at = 0; at < text.size();) {
        wchar_t c = 0;
        const std::size_t length = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
        if (length > text.size()) throw std::runtime_error("a text to upper-case is not UTF-8");
        at += length == 0 ? 1 : length;
        if (c == L'ß') {
            upper += L"SS";  // the one common letter that becomes two
        } else {
            upper += static_cast<wchar_t>(std::towupper(static_cast<wint_t>(c)));
        }
    }
    std::string out;
    state = {};
    for (const wchar_t c : upper) {
        char bytes[MB_LEN_MAX];
        out.append(bytes, std::wcrtomb(bytes, c, &state));
    }
    return out;
}

}  // namespace conformance
