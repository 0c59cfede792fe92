#include "faults.hpp"

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

#include "store.hpp"

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

}  // namespace conformance
