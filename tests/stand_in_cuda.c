/* Stand-in for NVIDIA's driver library in tests on machines without a GPU.
 *
 * It has the functions of libcuda.so.1 that quaddyn.cuda.driver uses.  "Memory of the GPU" is memory of this process,
 * and cuLaunchKernel interprets the PTX of the module: each thread of a warp runs up to the next barrier before the
 * next one starts, so that missing barriers change results.  Every access is checked: an address outside the
 * allocations, or not aligned, makes the launch fail.  Instructions that the generated kernels do not contain are
 * rejected when the module is loaded.  The functions stand_in_* are for the tests. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_PTX = 218, PTX_VERSION = 222, ILLEGAL_ADDRESS = 700,
       MISALIGNED = 716 };

typedef struct { const char *name; long value; } Setting;
static Setting settings[] = {
    {"driver_version", 12040}, {"devices", 2}, {"major", 9}, {"minor", 0}, {"multiprocessors", 3}, {"memory", 1L << 30},
    {"ptx_version", 80}, {"grid", 0}, {"block", 0}, {"stream", 0}, {"launches", 0}, {"waits", 0}, {"wait_stream", 0},
    {"recorded", 0}, {"modules", 0}, {"allocations", 0}, {"instructions", 0}, {"pushed", 0}, {NULL, 0}};

static long *setting(const char *name) {
    for (Setting *s = settings; s->name; s++)
        if (!strcmp(s->name, name)) return &s->value;
    abort();
}
void stand_in_set(const char *name, long value) { *setting(name) = value; }
long stand_in_get(const char *name) { return *setting(name); }

/* -- memory: a guard on both sides of each allocation separates neighbors -- */
enum { GUARD = 64, MAX_ALLOCATIONS = 4096 };
static struct { char *start; size_t size; int device; } allocations[MAX_ALLOCATIONS];
static int current_device, context_stack[64];

static int find_allocation(uint64_t address, size_t size) {
    for (int k = 0; k < MAX_ALLOCATIONS; k++) {
        uint64_t start = (uint64_t)allocations[k].start;
        if (start && address >= start && address + size <= start + allocations[k].size) return k;
    }
    return -1;
}
int cuMemAlloc_v2(void **out, size_t size) {
    long used = 0;
    int free_slot = -1;
    for (int k = 0; k < MAX_ALLOCATIONS; k++) {
        if (allocations[k].start) used += (long)allocations[k].size;
        else if (free_slot < 0) free_slot = k;
    }
    if (size == 0) return INVALID_VALUE;
    if (used + (long)size > *setting("memory") || free_slot < 0) return OUT_OF_MEMORY;
    char *block = malloc(size + 2 * GUARD + 256);
    char *start = (char *)(((uint64_t)block + GUARD + 255) / 256 * 256);
    memset(start, 0xFF, size); /* NaN */
    allocations[free_slot].start = start;
    allocations[free_slot].size = size;
    allocations[free_slot].device = current_device;
    ++*setting("allocations");
    *out = start;
    return OK;
}
int cuMemFree_v2(void *address) {
    int k = find_allocation((uint64_t)address, 0);
    if (k < 0 || allocations[k].start != address) return INVALID_VALUE;
    allocations[k].start = NULL; /* the memory itself stays, so that late accesses are found, not fatal */
    --*setting("allocations");
    return OK;
}
int cuMemcpyHtoD_v2(void *to, const void *from, size_t n) {
    if (find_allocation((uint64_t)to, n) < 0) return INVALID_VALUE;
    memcpy(to, from, n);
    return OK;
}
int cuMemcpyDtoH_v2(void *to, const void *from, size_t n) {
    if (find_allocation((uint64_t)from, n) < 0) return INVALID_VALUE;
    memcpy(to, from, n);
    return OK;
}
int cuPointerGetAttribute(void *out, int attribute, void *address) {
    int k = find_allocation((uint64_t)address, 1);
    if (k < 0 || attribute != 9) return INVALID_VALUE;
    *(int *)out = allocations[k].device;
    return OK;
}

/* -- devices, contexts, streams and events -- */
int cuInit(unsigned flags) { return flags ? INVALID_VALUE : *setting("devices") ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *out) { *out = (int)*setting("driver_version"); return OK; }
int cuDeviceGetCount(int *out) { *out = (int)*setting("devices"); return OK; }
int cuDeviceGet(int *out, int index) { *out = index; return index < *setting("devices") ? OK : INVALID_VALUE; }
int cuDeviceGetName(char *out, int n, int device) { snprintf(out, (size_t)n, "Stand-in %d", device); return OK; }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
    (void)device;
    *out = (int)*setting(attribute == 16 ? "multiprocessors" : attribute == 75 ? "major" : "minor");
    return attribute == 16 || attribute == 75 || attribute == 76 ? OK : INVALID_VALUE;
}
int cuDevicePrimaryCtxRetain(void **out, int device) { *out = (void *)(intptr_t)(device + 1); return OK; }
int cuCtxPushCurrent_v2(void *context) {
    context_stack[(*setting("pushed"))++] = current_device;
    current_device = (int)(intptr_t)context - 1;
    return OK;
}
int cuCtxPopCurrent_v2(void **out) {
    *out = (void *)(intptr_t)(current_device + 1);
    current_device = context_stack[--*setting("pushed")];
    return OK;
}
static int failure; /* of a launch, reported by the next synchronization */
int cuStreamSynchronize(void *stream) { (void)stream; return failure; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    *setting("wait_stream") = (long)stream;
    *setting("recorded") = *(long *)event;
    ++*setting("waits");
    return OK;
}
int cuEventCreate(void **out, unsigned flags) { (void)flags; *out = calloc(1, sizeof(long)); return OK; }
int cuEventRecord(void *event, void *stream) { *(long *)event = (long)stream; return OK; }
int cuEventElapsedTime(float *out, void *a, void *b) { (void)a; (void)b; *out = 1.0f; return OK; }
int cuEventDestroy_v2(void *event) { free(event); return OK; }
int cuGetErrorName(int status, const char **out) {
    *out = status == INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : status == PTX_VERSION ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
         : status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == MISALIGNED ? "CUDA_ERROR_MISALIGNED_ADDRESS"
         : "CUDA_ERROR_INVALID_VALUE";
    return OK;
}
int cuGetErrorString(int status, const char **out) { (void)status; *out = "reported by the stand-in"; return OK; }

/* -- PTX -- */
typedef struct { char space; int reg; int64_t offset; } Address; /* reg -1: the offset alone */
typedef struct { int reg; uint64_t constant; } Operand;          /* reg -1: the constant */
typedef struct {
    char op[24];
    int code, kind, is_double, wide, guard, negated, destination, target;
    Operand in[3];
    Address address;
} Instruction;
typedef struct {
    char name[64], *text;
    Instruction *code;
    int length, registers, local_size, shared_size;
} Module;

enum { MAX_REGISTERS = 400000, SHARED_BASE = 0x1000, LOCAL_BASE = 0x10000000 };
static const char *OPS[] = {
    "abs.f64", "abs.f32", "add.rn.f64", "add.rn.f32", "sub.rn.f64", "sub.rn.f32", "mul.rn.f64", "mul.rn.f32",
    "fma.rn.f64", "fma.rn.f32", "neg.f64", "neg.f32", "rcp.rn.f64", "rcp.rn.f32", "div.rn.f64", "div.rn.f32",
    "sqrt.rn.f64", "sqrt.rn.f32", "add.s32", "add.s64", "add.u64", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32",
    "xor.b64", "shl.b32", "shl.b64", "shr.u32", "shr.u64", "mul.lo.s32", "mul.lo.s64", "mad.lo.s32", "mad.lo.s64",
    "mul.wide.u32", "cvt.u64.u32", "min.u32", "min.u64", "mov.b32", "mov.b64", "mov.u32", "selp.f64", "selp.f32",
    "and.pred", "or.pred", "not.pred", "setp.eq.b64", "setp.ne.b32", "setp.ne.b64", "setp.lt.u64", "setp.gt.f64",
    "setp.gt.f32", "setp.lt.f64", "setp.lt.f32", "setp.le.f64", "setp.le.f32", "setp.ge.f64", "setp.ge.f32",
    "setp.gtu.f64", "setp.gtu.f32", "setp.ltu.f64", "setp.ltu.f32", "setp.geu.f64", "setp.geu.f32", "setp.leu.f64",
    "setp.leu.f32", "setp.num.f64", "setp.num.f32", "setp.nan.f64", "setp.nan.f32", "cvta.local.u64",
    "cvta.to.local.u64", "bra", "bra.uni", "ret", "bar.warp.sync", "ld.param.b64", "ld.global.nc.b32",
    "ld.global.nc.b64", "ld.shared.b32", "ld.shared.b64", "ld.local.b32", "ld.local.b64", "st.global.b32",
    "st.global.b64", "st.shared.b32", "st.shared.b64", "st.local.b32", "st.local.b64", "mov.pred", NULL};

/* Kinds of instructions: the first of these that its name begins with. */
enum { RET_KIND, BAR_KIND, BRA_KIND, LD_PARAM_KIND, LD_KIND, ST_KIND, FMA_KIND, ADD_RN_KIND, SUB_RN_KIND,
    MUL_RN_KIND, DIV_RN_KIND, RCP_KIND, SQRT_KIND, ABS_KIND, NEG_KIND, SELP_KIND, SETP_EQ_B_KIND, SETP_NE_B_KIND,
    SETP_LT_U_KIND, SETP_KIND, ADD_KIND, AND_KIND, OR_KIND, XOR_KIND, NOT_PRED_KIND, SHL_KIND, SHR_KIND,
    MUL_WIDE_KIND, MUL_LO_KIND, MAD_LO_KIND, CVT_U64_KIND, MIN_U_KIND, MOV_KIND, CVTA_KIND };
static const char *KINDS[] = {"ret", "bar.", "bra", "ld.param", "ld.", "st.", "fma", "add.rn", "sub.rn", "mul.rn",
    "div.rn", "rcp", "sqrt", "abs", "neg", "selp", "setp.eq.b", "setp.ne.b", "setp.lt.u", "setp.", "add.", "and",
    "or", "xor", "not.pred", "shl", "shr", "mul.wide", "mul.lo", "mad.lo", "cvt.u64", "min.u", "mov.", "cvta.",
    NULL};

typedef struct { char name[64]; int64_t value; } Symbol;
static Symbol symbols[4096];
static int symbol_count;
static int64_t *find_symbol(const char *name) {
    for (int k = 0; k < symbol_count; k++)
        if (!strcmp(symbols[k].name, name)) return &symbols[k].value;
    return NULL;
}
static void add_symbol(const char *name, int64_t value) {
    snprintf(symbols[symbol_count].name, 64, "%s", name);
    symbols[symbol_count++].value = value;
}
static int first_register[3], register_count; /* of %p, %r, %rd */

static int parse_register(const char *s) {
    if (!strcmp(s, "%SP")) return 0;
    if (!strcmp(s, "%SPL")) return 1;
    if (!strcmp(s, "%tid.x")) return 2;
    if (!strcmp(s, "%ctaid.x")) return 3;
    if (s[0] != '%') return -1;
    if (s[1] == 'p') return first_register[0] + atoi(s + 2);
    if (s[1] == 'r' && s[2] == 'd') return first_register[2] + atoi(s + 3);
    return s[1] == 'r' ? first_register[1] + atoi(s + 2) : -1;
}
static Operand parse_operand(const char *s) {
    Operand out = {parse_register(s), 0};
    if (out.reg < 0) {
        int64_t *symbol = find_symbol(s);
        if (symbol) out.constant = (uint64_t)*symbol;
        else if (s[0] == '0' && (s[1] == 'd' || s[1] == 'f')) out.constant = strtoull(s + 2, NULL, 16);
        else out.constant = (uint64_t)strtoll(s, NULL, 0);
    }
    return out;
}

static int reject(char *log, const char *line) {
    if (log) snprintf(log, 400, "stand-in: unknown instruction: %.300s", line);
    return INVALID_PTX;
}

static int parse_instruction(char *line, Instruction *out, char *log) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", line);
    out->guard = out->destination = out->target = -1;
    char *s = line, *name;
    if (*s == '@') {
        out->negated = s[1] == '!';
        char *end = strchr(s, ' ');
        *end = 0;
        out->guard = parse_register(s + 1 + out->negated);
        for (s = end + 1; *s == ' ' || *s == '\t'; s++) {}
    }
    name = strtok(s, " \t;");
    snprintf(out->op, sizeof out->op, "%s", name);
    for (out->code = 0; OPS[out->code] && strcmp(OPS[out->code], name); out->code++) {}
    if (!OPS[out->code]) return reject(log, copy);
    for (out->kind = 0; KINDS[out->kind] && strncmp(name, KINDS[out->kind], strlen(KINDS[out->kind])); out->kind++) {}
    out->is_double = strstr(name, ".f64") != NULL;
    out->wide = strstr(name, "64") || strstr(name, "wide");
    char *parts[4] = {0};
    int n = 0;
    for (char *part = strtok(NULL, " \t,;"); part && n < 4; part = strtok(NULL, " \t,;")) parts[n++] = part;
    if (!strncmp(name, "bra", 3)) { snprintf(out->op, 24, "%s", parts[0]); return OK; } /* resolved later */
    int inputs = 0;
    for (int k = 0; k < n; k++) {
        if (parts[k][0] == '[') {
            char *base = parts[k] + 1, *end = strchr(base, ']'), *sign = strpbrk(base, "+");
            *end = 0;
            out->address.offset = sign ? strtoll(sign + 1, NULL, 0) : 0;
            if (sign) *sign = 0;
            out->address.reg = parse_register(base);
            char *parameter = strstr(base, "_param_");
            int64_t *symbol = find_symbol(base);
            if (parameter) out->address.offset = atoi(parameter + 7);
            else if (symbol) out->address.offset += *symbol;
            out->address.space = name[3];
        } else if (k == 0 && strncmp(name, "st.", 3)) {
            out->destination = parse_register(parts[k]);
        } else {
            out->in[inputs++] = parse_operand(parts[k]);
        }
    }
    return OK;
}

static int parse_module(Module *m, char *log) {
    symbol_count = 0;
    int counts[3] = {0}, capacity = 0;
    m->shared_size = m->local_size = m->length = 0;
    char *text = strdup(m->text), *save = NULL;
    for (int pass = 0; pass < 2; pass++) {
        strcpy(text, m->text);
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            while (*line == ' ' || *line == '\t') line++;
            char *p, name[64];
            int size;
            if (pass == 0) {
                if (sscanf(line, ".version %d.%d", &counts[0], &counts[1]) == 2 &&
                    10 * counts[0] + counts[1] > *setting("ptx_version")) {
                    if (log) snprintf(log, 400, "stand-in: unsupported .version %d.%d", counts[0], counts[1]);
                    return PTX_VERSION;
                }
                if ((p = strstr(line, ".entry "))) sscanf(p, ".entry %63[^(]", m->name);
                if ((p = strstr(line, ".shared ")) && (p = strstr(p, ".b8 ")) &&
                    sscanf(p, ".b8 %63[^[][%d]", name, &size) == 2) {
                    m->shared_size = (m->shared_size + 15) / 16 * 16;
                    add_symbol(name, SHARED_BASE + m->shared_size);
                    m->shared_size += size;
                }
                if (!strncmp(line, ".local ", 7) && (p = strstr(line, ".b8 ")) &&
                    sscanf(p, ".b8 %63[^[][%d]", name, &size) == 2) {
                    add_symbol(name, LOCAL_BASE);
                    m->local_size = size;
                }
                if (sscanf(line, ".reg .pred %%p<%d>", &size) == 1) counts[0] = size;
                if (sscanf(line, ".reg .b32 %%r<%d>", &size) == 1) counts[1] = size;
                if (sscanf(line, ".reg .b64 %%rd<%d>", &size) == 1) counts[2] = size;
                continue;
            }
            if (*line == '$') {
                *strchr(line, ':') = 0;
                add_symbol(line, m->length);
                continue;
            }
            if (!strchr(line, ';') || *line == '.' || *line == '/' || *line == '{') continue;
            if (m->length == capacity)
                m->code = realloc(m->code, sizeof(Instruction) * (size_t)(capacity = 2 * capacity + 1024));
            memset(&m->code[m->length], 0, sizeof(Instruction));
            int status = parse_instruction(line, &m->code[m->length++], log);
            if (status) return status;
        }
        if (pass == 0) {
            register_count = 4;
            for (int k = 0; k < 3; k++) first_register[k] = register_count, register_count += counts[k];
            m->registers = register_count;
        }
    }
    for (int k = 0; k < m->length; k++)
        if (!strncmp(OPS[m->code[k].code], "bra", 3)) {
            int64_t *at = find_symbol(m->code[k].op);
            if (!at) return reject(log, m->code[k].op);
            m->code[k].target = (int)*at;
        }
    free(text);
    return OK;
}

int cuModuleLoadDataEx(void **out, const void *ptx, unsigned n, int *options, void **values) {
    char *log = NULL;
    for (unsigned k = 0; k < n; k++)
        if (options[k] == 5) log = values[k];
    Module *m = calloc(1, sizeof *m);
    m->text = strdup(ptx);
    int status = parse_module(m, log);
    if (!status) ++*setting("modules");
    *out = m;
    return status;
}
int cuModuleUnload(void *module) {
    Module *m = module;
    free(m->text);
    free(m->code);
    free(m);
    --*setting("modules");
    return OK;
}
int cuModuleGetFunction(void **out, void *module, const char *name) {
    *out = module;
    return strcmp(((Module *)module)->name, name) ? INVALID_VALUE : OK;
}
int cuFuncGetAttribute(int *out, int attribute, void *function) {
    *out = attribute == 3 ? ((Module *)function)->local_size : 0;
    return OK;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *function, int threads, size_t bytes) {
    (void)function;
    *out = 8;
    return threads == 32 && !bytes ? OK : INVALID_VALUE;
}

/* -- execution -- */
typedef struct { uint64_t *r; char *local; int pc, done; } Thread;

static double d(uint64_t x) { double y; memcpy(&y, &x, 8); return y; }
static float f(uint64_t x) { float y; uint32_t z = (uint32_t)x; memcpy(&y, &z, 4); return y; }
static uint64_t from_d(double x) { uint64_t y; memcpy(&y, &x, 8); return y; }
static uint64_t from_f(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }

static uint64_t recent_start, recent_end; /* the allocation of the previous access */

static void *resolve(const Module *m, Thread *t, char *shared, const Address *a, int size) {
    uint64_t at = (a->reg < 0 ? 0 : t->r[a->reg]) + (uint64_t)a->offset;
    if (at % (uint64_t)size) { failure = MISALIGNED; return NULL; }
    if (a->space == 's') {
        if (at < SHARED_BASE || at + (uint64_t)size > SHARED_BASE + (uint64_t)m->shared_size) failure = ILLEGAL_ADDRESS;
        return failure ? NULL : shared + (at - SHARED_BASE);
    }
    if (a->space == 'l') {
        if (at < LOCAL_BASE || at + (uint64_t)size > LOCAL_BASE + (uint64_t)m->local_size) failure = ILLEGAL_ADDRESS;
        return failure ? NULL : t->local + (at - LOCAL_BASE);
    }
    if (at < recent_start || at + (uint64_t)size > recent_end) {
        int k = find_allocation(at, (size_t)size);
        if (k < 0) { failure = ILLEGAL_ADDRESS; return NULL; }
        recent_start = (uint64_t)allocations[k].start, recent_end = recent_start + allocations[k].size;
    }
    return (void *)at;
}

/* Runs a thread up to a barrier or its end. */
static void run(const Module *m, Thread *t, char *shared, uint64_t **arguments) {
    uint64_t *r = t->r;
    while (!failure) {
        const Instruction *i = &m->code[t->pc++];
        if (i->guard >= 0 && (r[i->guard] != 0) == i->negated) continue;
        uint64_t x[3], y = 0;
        for (int k = 0; k < 3; k++) x[k] = i->in[k].reg < 0 ? i->in[k].constant : r[i->in[k].reg];
        double a = d(x[0]), b = d(x[1]), c = d(x[2]);
        float u = f(x[0]), v = f(x[1]), w = f(x[2]);
        int is_double = i->is_double, wide = i->wide;
        switch (i->kind) {
        case RET_KIND: t->done = 1; return;
        case BAR_KIND: return;
        case BRA_KIND: t->pc = i->target; continue;
        case LD_PARAM_KIND: y = *arguments[i->address.offset]; break;
        case LD_KIND:
        case ST_KIND: {
            int size = wide ? 8 : 4;
            void *at = resolve(m, t, shared, &i->address, size);
            if (!at) return;
            if (i->kind == LD_KIND) memcpy(&y, at, (size_t)size);
            else memcpy(at, &x[0], (size_t)size);
            if (i->kind == ST_KIND) continue;
            break;
        }
        case FMA_KIND: y = is_double ? from_d(fma(a, b, c)) : from_f(fmaf(u, v, w)); break;
        case ADD_RN_KIND: y = is_double ? from_d(a + b) : from_f(u + v); break;
        case SUB_RN_KIND: y = is_double ? from_d(a - b) : from_f(u - v); break;
        case MUL_RN_KIND: y = is_double ? from_d(a * b) : from_f(u * v); break;
        case DIV_RN_KIND: y = is_double ? from_d(a / b) : from_f(u / v); break;
        case RCP_KIND: y = is_double ? from_d(1.0 / a) : from_f(1.0f / u); break;
        case SQRT_KIND: y = is_double ? from_d(sqrt(a)) : from_f(sqrtf(u)); break;
        case ABS_KIND: y = is_double ? from_d(fabs(a)) : from_f(fabsf(u)); break;
        case NEG_KIND: y = is_double ? x[0] ^ (1ULL << 63) : (uint32_t)x[0] ^ (1U << 31); break;
        case SELP_KIND: y = x[2] ? x[0] : x[1]; break;
        case SETP_EQ_B_KIND:
        case SETP_NE_B_KIND:
            y = (wide ? x[0] == x[1] : (uint32_t)x[0] == (uint32_t)x[1]) == (i->kind == SETP_EQ_B_KIND);
            break;
        case SETP_LT_U_KIND: y = x[0] < x[1]; break;
        case SETP_KIND: { /* setp.le.f64, setp.leu.f64, setp.num.f64 ... */
            const char *test = OPS[i->code] + 5;
            double p = is_double ? a : u, q = is_double ? b : v;
            int unordered = isnan(p) || isnan(q), less = p < q, equal = p == q;
            if (test[0] == 'n') y = unordered == (test[1] == 'a');
            else if (test[0] == 'e') y = equal;
            else {
                y = (test[0] == 'l' ? less : !unordered && !less && !equal) || (test[1] == 'e' && equal);
                if (test[2] == 'u') y |= unordered;
            }
            break;
        }
        case ADD_KIND: y = x[0] + x[1]; break;
        case AND_KIND: y = x[0] & x[1]; break;
        case OR_KIND: y = x[0] | x[1]; break;
        case XOR_KIND: y = x[0] ^ x[1]; break;
        case NOT_PRED_KIND: y = !x[0]; break;
        case SHL_KIND: y = x[0] << x[1]; break;
        case SHR_KIND: y = (wide ? x[0] : (uint32_t)x[0]) >> x[1]; break;
        case MUL_WIDE_KIND: y = (uint64_t)(uint32_t)x[0] * (uint32_t)x[1]; break;
        case MUL_LO_KIND: y = x[0] * x[1]; break;
        case MAD_LO_KIND: y = x[0] * x[1] + x[2]; break;
        case CVT_U64_KIND: y = (uint32_t)x[0]; break;
        case MIN_U_KIND: y = x[0] < x[1] ? x[0] : x[1]; break;
        case MOV_KIND:
        case CVTA_KIND: y = x[0]; break;
        default: abort();
        }
        if (!wide) y = (uint32_t)y;
        r[i->destination] = y;
        ++*setting("instructions");
    }
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned bytes, void *stream, void **arguments, void **extra) {
    Module *m = function;
    if (!gx || gy != 1 || gz != 1 || by != 1 || bz != 1 || bytes || extra || m->shared_size > 49152) return INVALID_VALUE;
    *setting("grid") = gx, *setting("block") = bx, *setting("stream") = (long)stream;
    ++*setting("launches");
    failure = 0;
    recent_start = recent_end = 0;
    char *shared = malloc((size_t)m->shared_size + 1);
    Thread *threads = calloc(bx, sizeof *threads);
    for (unsigned k = 0; k < bx; k++) {
        threads[k].r = calloc((size_t)m->registers, 8);
        threads[k].local = malloc((size_t)m->local_size + 1);
    }
    for (unsigned block = 0; block < gx && !failure; block++) {
        memset(shared, 0xFF, (size_t)m->shared_size);
        for (unsigned first = 0; first < bx; first += 32) {
            unsigned end = first + 32 < bx ? first + 32 : bx, left = end - first;
            for (unsigned k = first; k < end; k++) {
                Thread *t = &threads[k];
                t->pc = t->done = 0;
                t->r[2] = k;
                t->r[3] = block;
                memset(t->local, 0xFF, (size_t)m->local_size);
            }
            while (left && !failure) {
                left = 0;
                for (unsigned k = first; k < end && !failure; k++)
                    if (!threads[k].done) {
                        run(m, &threads[k], shared, (uint64_t **)arguments);
                        left += !threads[k].done;
                    }
            }
        }
    }
    for (unsigned k = 0; k < bx; k++) free(threads[k].r), free(threads[k].local);
    free(threads);
    free(shared);
    return OK;
}
