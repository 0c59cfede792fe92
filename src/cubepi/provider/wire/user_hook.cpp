#include <cubepi/provider/wire/user_hook.hpp>

#include <string>

#include <cubepi/core/cancellation.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view hook_error_type = "HookError";

}  // namespace

void throw_hook_error(std::string_view name, const std::exception_ptr& failure) {
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    ErrorInfo info;
    info.type = hook_error_type;
    const std::string text = "hook " + std::string(name) + " failed: " + exception_text(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        info.code = error.code();
        std::throw_with_nested(ProviderError(std::move(info), text));
    } catch (...) {
        std::throw_with_nested(ProviderError(std::move(info), text));
    }
}

bool is_hook_error(const ErrorInfo& info) noexcept { return info.type == hook_error_type; }

}  // namespace cubepi::detail
