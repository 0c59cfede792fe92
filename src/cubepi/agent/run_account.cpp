#include <cubepi/agent/run_account.hpp>

#include <utility>

#include <cubepi/provider/stream_options.hpp>

namespace cubepi {

void RunAccount::charge(const Usage& usage, std::optional<double> cost) {
    const std::lock_guard lock(mutex_);
    spending_.usage += usage;
    spending_.cost =
        spending_.cost && cost ? std::optional<double>(*spending_.cost + *cost) : std::nullopt;
}

Spending RunAccount::spending() const {
    const std::lock_guard lock(mutex_);
    return spending_;
}

void RunAccount::set_spending(Spending value) {
    const std::lock_guard lock(mutex_);
    spending_ = value;
}

StreamOptions options_for_call(const RunInfo& run, std::string_view purpose,
                               std::string_view tool_call_id) {
    return StreamOptions()
        .run_id(run.run_id)
        .purpose(std::string(purpose))
        .tool_call_id(std::string(tool_call_id));
}

}  // namespace cubepi
