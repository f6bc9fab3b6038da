#include "tril/models/session.h"

#include "tril/models/session_state.h"
#include "tril/models/transformer.h"

namespace tril {

SessionState::SessionState(const Transformer& model, int threads)
    : Context(threads, model.placement()),
      cache(model.config().decoder_layers, model.config().kv_heads, model.config().head_dim,
            model.placement()) {}

Session::Session(const Transformer& model, int threads)
    : state_(new SessionState(model, threads)) {}
Session::~Session() { delete state_; }
Session::operator Context&() const { return *state_; }

Device Session::device() const { return state_->device(); }
void Session::reset() { state_->reset(); }

int32_t Session::open() { return state_->cache.open(); }
int32_t Session::fork(int32_t slot) { return state_->cache.fork(slot); }
void Session::close(int32_t slot) { state_->cache.release(slot); }
int32_t Session::length(int32_t slot) const { return state_->cache.length(slot); }
void Session::truncate(int32_t slot, int32_t length) { state_->cache.truncate(slot, length); }

void Session::set_dropout(const std::optional<DropoutStep>& dropout) { state_->dropout = dropout; }
void Session::set_masking(Masking masking) { state_->masking = masking; }

}  // namespace tril
