#include <cubepi/sql/support/driver.hpp>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view not_stored = "; nothing was stored";

ErrorCode connect_code(const SqlFailure& failure) {
    const std::string_view reason = failure.what();
    const bool is_tls = reason.find("SSL") != std::string_view::npos ||
                        reason.find("certificate") != std::string_view::npos;
    return is_tls ? ErrorCode::tls : ErrorCode::connect;
}

std::string start_of(const SqlDriver& driver, const SqlFailure& failure) {
    const bool connecting = failure.kind() == SqlFailureKind::connect;
    return (connecting ? "cannot connect to " : "") + driver.description() + ": " + failure.what();
}

[[noreturn]] void throw_server_error(const SqlDriver& driver, const SqlSchema& schema,
                                     const SqlFailure& failure, const std::string& id) {
    const std::string start = start_of(driver, failure);
    const bool is_write = failure.kind() == SqlFailureKind::server;
    const std::string nothing(is_write ? not_stored : "");
    if (failure.condition() == SqlCondition::lock_timeout) {
        throw CheckpointerLockTimeoutError(
            ErrorCode::storage_locked,
            driver.without_secrets(start + "; another transaction uses the thread" + nothing +
                                   "; try again later, or raise lock_timeout"),
            id);
    }
    const SqlRemedy remedy = schema.remedy(failure, driver.remedy(failure));
    const std::string state = failure.code().empty() ? "" : " (" + failure.code() + ")";
    throw CheckpointerError(
        remedy.code,
        driver.without_secrets(start + state + nothing + "; " + std::string(remedy.text)), id);
}

const char* kind_name(SqlFailureKind kind) noexcept {
    switch (kind) {
        case SqlFailureKind::connect: return "connect";
        case SqlFailureKind::dns: return "dns";
        case SqlFailureKind::lost: return "disconnected";
        case SqlFailureKind::timeout: return "timeout";
        case SqlFailureKind::server: break;
    }
    return "server";
}

}  // namespace

void SqlSchema::check(const std::string& /*where*/, const SqlResults& /*results*/) const {}

void SqlSchema::lock(SqlBatch& /*batch*/, const std::vector<std::string>& /*names*/) const {}

void SqlSchema::end_write(SqlBatch& /*batch*/, const std::vector<std::string>& /*names*/) const {}

SqlRemedy SqlSchema::remedy(const SqlFailure& /*failure*/, SqlRemedy general) const {
    return general;
}

bool SqlFailure::leaves_commit_unknown() const noexcept {
    return kind_ == SqlFailureKind::lost || kind_ == SqlFailureKind::timeout;
}

bool SqlFailure::is_transient() const noexcept {
    return kind_ == SqlFailureKind::lost || condition_ == SqlCondition::conflict || is_starting();
}

void hide_secret(std::string& text, const std::string& secret) {
    if (secret.empty()) return;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + 3)) {
        text.replace(at, secret.size(), "***");
    }
}

const SqlFailure* as_server_failure(const std::exception_ptr& exception) {
    if (!exception) return nullptr;
    try {
        std::rethrow_exception(exception);
    } catch (const SqlFailure& failure) {
        return &failure;
    } catch (...) {
        return nullptr;
    }
}

void log_failure(const Logger& log, const SqlDriver& driver, const SqlFailure& failure,
                 bool repeated) noexcept {
    // A lock timeout, or a transaction that others got in the way of.
    const bool busy =
        failure.condition() == SqlCondition::lock_timeout || failure.code().starts_with("40");
    const LogLevel level = busy || repeated ? LogLevel::warning : LogLevel::error;
    log.write(level, busy ? "store.busy" : "store.failed",
              {{"store", driver.name()},
               {"error", kind_name(failure.kind())},
               {driver.code_field(), failure.code()},
               {"repeated", repeated}});
}

void throw_checkpointer_error(const SqlDriver& driver, const SqlSchema& schema,
                              const SqlFailure& failure, const std::string& id) {
    const std::string start = start_of(driver, failure);
    switch (failure.kind()) {
        case SqlFailureKind::dns:
            throw CheckpointerError(
                ErrorCode::dns,
                driver.without_secrets(start + "; check the host of the connection"), id);
        case SqlFailureKind::connect:
            if (!failure.code().empty()) break;
            throw CheckpointerError(
                connect_code(failure),
                driver.without_secrets(start + "; check host and port, and that the server runs"),
                id);
        case SqlFailureKind::lost:
            throw CheckpointerError(
                ErrorCode::disconnected,
                driver.without_secrets(start + std::string(not_stored) + "; try again"), id);
        case SqlFailureKind::timeout:
            throw CheckpointerError(ErrorCode::timeout,
                                    driver.without_secrets(start + std::string(not_stored) +
                                                           "; try again, or raise the limit"),
                                    id);
        case SqlFailureKind::server: break;
    }
    throw_server_error(driver, schema, failure, id);
}

void throw_unknown_fate(const SqlDriver& driver, const std::string& id, const std::string& reason) {
    throw CheckpointerError(
        ErrorCode::disconnected,
        driver.without_secrets(
            driver.description() + ": the connection broke while a write was committed (" + reason +
            "); whether it was stored is unknown; load the thread again to find out"),
        id);
}

}  // namespace cubepi::detail
