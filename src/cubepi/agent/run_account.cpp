#include <cubepi/agent/run_account.hpp>

#include <utility>

#include <cubepi/provider/stream_options.hpp>

namespace cubepi {

namespace {

void add(Spending& sum, const Usage& usage, const std::optional<double>& cost) {
    sum.usage += usage;
    sum.cost = sum.cost && cost ? std::optional<double>(*sum.cost + *cost) : std::nullopt;
}

}  // namespace

void RunAccount::charge(const Usage& usage, std::optional<double> cost) {
    const std::lock_guard lock(mutex_);
    add(own_, usage, cost);
}

Spending RunAccount::spending() const {
    const std::lock_guard lock(mutex_);
    Spending sum = earlier_;
    add(sum, own_.usage, own_.cost);
    return sum;
}

Spending RunAccount::own_spending() const {
    const std::lock_guard lock(mutex_);
    return own_;
}

void RunAccount::set_earlier_spending(Spending value) {
    const std::lock_guard lock(mutex_);
    earlier_ = value;
}

StreamOptions options_for_call(const RunInfo& run, std::string_view purpose,
                               std::string_view tool_call_id) {
    return StreamOptions()
        .run_id(run.run_id)
        .purpose(std::string(purpose))
        .tool_call_id(std::string(tool_call_id));
}

}  // namespace cubepi
