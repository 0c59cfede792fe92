#include <cubepi/agent/run_account.hpp>

#include <algorithm>
#include <limits>
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
    count(usage, cost);
    add_to_budgets(cost.value_or(0.0));
}

void RunAccount::charge_to(RunAccount& payer) {
    Spending own;
    double counted = 0.0;
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(is_charged_, true)) return;
        own = own_;
        // The rest was spent by tasks that still run, and is charged later.
        counted = std::max(0.0, in_budget_ - uncharged_);
        in_budget_ -= counted;
    }
    // The known part of an unknown cost still counts in the budgets of the payer.
    const double known = own.cost.value_or(counted);
    if (&payer != budget_.get()) {
        add_to_budgets(-counted);
        payer.count(own.usage, own.cost);
        payer.add_to_budgets(known);
        return;
    }
    // In one step, so that a reservation at the same time counts the cost once.
    {
        const std::lock_guard lock(payer.mutex_);
        add(payer.own_, own.usage, own.cost);
        payer.uncharged_ = std::max(0.0, payer.uncharged_ - counted);
    }
    payer.add_to_budgets(known - counted);
}

void RunAccount::charge_to_budget() {
    if (budget_) charge_to(*budget_);
}

/// Adds to what the budgets count of this account until it is charged.
void RunAccount::add_to_budgets(double cost) {
    for (RunAccount* account = this; account; account = account->budget_.get()) {
        const std::lock_guard lock(account->mutex_);
        if (account != this) account->uncharged_ = std::max(0.0, account->uncharged_ + cost);
        if (account->budget_) account->in_budget_ = std::max(0.0, account->in_budget_ + cost);
    }
}

void RunAccount::count(const Usage& usage, std::optional<double> cost) {
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

void RunAccount::add_tools(const std::vector<AgentTool>& tools) {
    const std::lock_guard lock(mutex_);
    for (const AgentTool& tool : tools) {
        if (!added_tools_.find(tool.name)) added_tools_.push_back(tool);
    }
}

ToolList RunAccount::added_tools() const {
    const std::lock_guard lock(mutex_);
    return added_tools_;
}

void RunAccount::set_max_spend(double usd) {
    const std::lock_guard lock(mutex_);
    max_spend_ = usd;
}

bool RunAccount::has_limit() const {
    if (budget_ && budget_->has_limit()) return true;
    const std::lock_guard lock(mutex_);
    return max_spend_ > 0;
}

/// Returns what the account's own limit leaves. The lock must be held.
double RunAccount::left() const {
    if (max_spend_ <= 0) return std::numeric_limits<double>::infinity();
    if (!own_.cost || !earlier_.cost) return 0.0;
    return max_spend_ - *own_.cost - *earlier_.cost - uncharged_ - reserved_;
}

double RunAccount::left_for_call() const {
    double most = std::numeric_limits<double>::infinity();
    if (budget_) {
        most = budget_->left_for_call();
        const std::lock_guard lock(budget_->mutex_);
        most = std::min(most, budget_->left() / 2);
    }
    const std::lock_guard lock(mutex_);
    return std::min(most, left());
}

bool RunAccount::try_reserve(double usd) {
    if (budget_ && !budget_->try_reserve(usd)) return false;
    {
        const std::lock_guard lock(mutex_);
        if (usd <= left()) {
            reserved_ += usd;
            return true;
        }
    }
    if (budget_) budget_->end_reservation(usd, 0.0);
    return false;
}

std::optional<double> RunAccount::reserve(double least, double most) {
    for (;;) {
        const double usd = std::min(most, left_for_call());
        if (usd < least || usd < 0) return std::nullopt;
        if (try_reserve(usd)) return usd;
    }
}

void RunAccount::end_reservation(double reserved, double cost) {
    for (RunAccount* account = this; account; account = account->budget_.get()) {
        const std::lock_guard lock(account->mutex_);
        account->reserved_ = std::max(0.0, account->reserved_ - reserved);
    }
    add_to_budgets(cost);
}

StreamOptions options_for_call(const RunInfo& run, std::string_view purpose,
                               std::string_view tool_call_id) {
    return StreamOptions()
        .run_id(run.run_id)
        .purpose(std::string(purpose))
        .tool_call_id(std::string(tool_call_id));
}

}  // namespace cubepi
