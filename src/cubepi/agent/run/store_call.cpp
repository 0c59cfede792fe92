#include <cubepi/agent/run/store_call.hpp>

#include <string>

namespace cubepi::detail {

void throw_store_failure(const std::exception_ptr& failure, std::string_view operation,
                         std::string_view thread_id) {
    const std::string text =
        "the checkpointer failed to " + std::string(operation) + ": " + exception_text(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const CheckpointerError&) {
        throw;
    } catch (const Error& error) {
        std::throw_with_nested(CheckpointerError(error.code(), text, std::string(thread_id)));
    } catch (...) {
        std::throw_with_nested(CheckpointerError(ErrorCode::storage, text, std::string(thread_id)));
    }
}

}  // namespace cubepi::detail
