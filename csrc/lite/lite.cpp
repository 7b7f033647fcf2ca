// mHC-lite: the softmax over the N! permutations, mixed into h_res, and its backward.
//
// A group of TOKENS tokens is turned so that its tokens lie in lanes: a logit of every token is one
// Pair. In lexicographic order the permutations with the same first places are neighbours: nodes of
// a tree, whose leaves are the permutations. A node of places 0..i is summed from the nodes below it
// and enters h[i][s(i)] as one number, so that about e N! additions do for N N!. The backward walks
// the same tree down: dw[k] = sum over i of g[i][s_k(i)] shares the sums of its first places.
// Every sum's order is that of the tree; weights are not normalised before h is.
#include "../lanes.h"
#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int lite_forward(int64_t tokens, int64_t streams, const float *logits, float *h_res, int threads);
int lite_backward(int64_t tokens, int64_t streams, const float *logits, const float *grad_h_res,
                  float *grad_logits, int threads);

namespace {

constexpr int MOST_STREAMS = 6;
constexpr int WEIGHTS = 24;  // weights that are summed from zero
constexpr int TURNED = 64;   // rows of lanes that stay in L1 while tokens pass

constexpr int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

// The permutations of N streams: place[k][i] = s_k(i).
template <int N>
struct Orders {
    static constexpr int COUNT = factorial(N);
    unsigned char place[COUNT][N] = {};

    constexpr Orders() {
        for (int k = 0; k < COUNT; k++) {
            bool used[N] = {};
            for (int i = 0, rest = k; i < N; i++) {
                int left = rest / leaves(i), j = 0;
                while (used[j] || left-- > 0) j++;
                used[j] = true;
                place[k][i] = (unsigned char)j;
                rest %= leaves(i);
            }
        }
    }
    // Permutations that agree in places 0..i.
    static constexpr int leaves(int i) { return factorial(N - 1 - i); }
};
template <int N>
constexpr Orders<N> orders;

struct Call {
    int64_t tokens;
    const float *logits, *grad_h_res;
    float *h_res, *grad_logits;
    int64_t groups;
    Pair *data;
    int64_t *next;
};

// to[entry] of `count` tokens, whose rows of `entries` numbers lie one after the other.
void turn_in(const float *from, int entries, int count, Pair *to) {
    float *lanes = (float *)to;
    if (count < TOKENS) memset(to, 0, (size_t)entries * sizeof(Pair));
    for (int first = 0; first < entries; first += TURNED) {
        const int end = (int)least(first + TURNED, entries);
        for (int t = 0; t < count; t++)
            for (int k = first; k < end; k++) lanes[k * TOKENS + t] = from[t * entries + k];
    }
}

void turn_out(const Pair *from, int entries, int count, float *to) {
    const float *lanes = (const float *)from;
    for (int first = 0; first < entries; first += TURNED) {
        const int end = (int)least(first + TURNED, entries);
        for (int t = 0; t < count; t++)
            for (int k = first; k < end; k++) to[t * entries + k] = lanes[k * TOKENS + t];
    }
}

// p = exp(p - the largest).
void exponentials(Pair *p, int count) {
    Pair top = p[0];
    for (int k = 1; k < count; k++) top = larger(p[k], top);
    for (int k = 0; k < count; k++) p[k] = exp_negative(p[k] - top);
}

// Blocks from zero, so that no chain of additions is long.
template <class Term>
MHC_INLINE Pair block_sum(int count, Term term) {
    Pair total = {};
    for (int first = 0; first < count; first += WEIGHTS) {
        Pair part = {};
        for (int k = first; k < least(first + WEIGHTS, count); k++) part = part + term(k);
        total = total + part;
    }
    return total;
}

template <int N>
void forward_group(const Call &c, Pair *p, int64_t first) {
    constexpr int COUNT = Orders<N>::COUNT;
    const int count = (int)least(TOKENS, c.tokens - first);
    turn_in(c.logits + first * COUNT, COUNT, count, p);
    exponentials(p, COUNT);
    Pair h[N * N] = {}, above[N] = {};  // above[i]: what has come of the open node of places 0..i
    for (int k = 0; k < COUNT; k++) {
        Pair node = p[k];
        for (int i = N - 1;; i--) {
            Pair &entry = h[i * N + orders<N>.place[k][i]];
            entry = entry + node;
            if (i == 0) break;
            node = above[i - 1] + node;
            above[i - 1] = node;
            if ((k + 1) % Orders<N>::leaves(i - 1)) break;
            above[i - 1] = Pair{};
        }
    }
    Pair total = h[0];
    for (int j = 1; j < N; j++) total = total + h[j];
    for (Pair &entry : h) entry = entry / total;
    turn_out(h, N * N, count, c.h_res + first * N * N);
}

template <int N>
void backward_group(const Call &c, Pair *p, int64_t first) {
    constexpr int COUNT = Orders<N>::COUNT;
    const int count = (int)least(TOKENS, c.tokens - first);
    Pair *dw = p + COUNT, g[N * N], path[N];  // path[i]: the sum of g over places 0..i
    turn_in(c.logits + first * COUNT, COUNT, count, p);
    turn_in(c.grad_h_res + first * N * N, N * N, count, g);
    exponentials(p, COUNT);
    const Pair total = block_sum(COUNT, [&](int k) { return p[k]; });
    for (int k = 0; k < COUNT; k++) {
        int i = 0;
        while (k % Orders<N>::leaves(i)) i++;
        for (; i < N; i++) {
            const Pair entry = g[i * N + orders<N>.place[k][i]];
            path[i] = i ? path[i - 1] + entry : entry;
        }
        dw[k] = path[N - 1];
        p[k] = p[k] / total;
    }
    const Pair mean = block_sum(COUNT, [&](int k) { return p[k] * dw[k]; });
    for (int k = 0; k < COUNT; k++) p[k] = p[k] * (dw[k] - mean);
    turn_out(p, COUNT, count, c.grad_logits + first * COUNT);
}

template <int N>
void run(const Team &team, void *argument) {
    const Call &c = *(const Call *)argument;
    Pair *scratch = c.data + team.rank * 2 * Orders<N>::COUNT;
    for (int64_t group; (group = take(c.next)) < c.groups;) {
        if (c.h_res)
            forward_group<N>(c, scratch, group * TOKENS);
        else
            backward_group<N>(c, scratch, group * TOKENS);
    }
}

template <int N>
int call(Call &c, int64_t streams, int threads) {
    if constexpr (N > 1)
        if (streams < N) return call<N - 1>(c, streams, threads);
    constexpr int COUNT = Orders<N>::COUNT;
    if (c.tokens == 0) return MHC_OK;
    c.groups = ceil_div(c.tokens, TOKENS);
    threads =
        (int)least(threads_for((double)c.tokens * COUNT * 16, max_threads(threads)), c.groups);
    Workspace w;
    const size_t data = w.reserve<Pair>((int64_t)threads * 2 * COUNT);
    const size_t next = w.reserve<int64_t>(1);
    if (!w.allocate()) return MHC_NO_MEMORY;
    c.data = w.at<Pair>(data);
    c.next = w.at<int64_t>(next);
    *c.next = 0;
    run_team(threads, run<N>, &c);
    return MHC_OK;
}

}  // namespace

int lite_forward(int64_t tokens, int64_t streams, const float *logits, float *h_res, int threads) {
    Call c = {tokens, logits, nullptr, h_res, nullptr};
    return call<MOST_STREAMS>(c, streams, threads);
}

int lite_backward(int64_t tokens, int64_t streams, const float *logits, const float *grad_h_res,
                  float *grad_logits, int threads) {
    Call c = {tokens, logits, grad_h_res, nullptr, grad_logits};
    return call<MOST_STREAMS>(c, streams, threads);
}

}  // namespace MHC_ISA
}  // namespace mhc
