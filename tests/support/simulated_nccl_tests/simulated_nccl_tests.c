/* A stand-in for nccl-tests on machines without a GPU: moves real bytes through MPI, checks every element, and prints
 * what nccl-tests print. The name it is called by says the collective: all_reduce_perf, alltoall_perf, ...
 * No NCCL is in it: what it measures is MPI between CPUs.
 *
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
static long bad;

static size_t bytes_of(const char *text) {
  char *end;
  size_t value = strtoull(text, &end, 10);
  if (*end == 'K') value <<= 10;
  if (*end == 'M') value <<= 20;
  if (*end == 'G') value <<= 30;
  return value;
}

/* Small integers, so that sums are exact in float whatever the order of the additions. */
static float value_of(int owner, size_t index) { return (float)((owner * 31 + index * 7) % 61); }

typedef struct {
  const char *name, *operation;
  int root, parts; /* parts: the array is cut into as many pieces as there are ranks */
  double factor;
} Kind;

static Kind kind_of(const char *program) {
  double n = ranks;
  if (!strcmp(program, "all_reduce_perf")) return (Kind){"all_reduce", "sum", -1, 0, 2 * (n - 1) / n};
  if (!strcmp(program, "all_gather_perf")) return (Kind){"all_gather", "none", -1, 1, (n - 1) / n};
  if (!strcmp(program, "reduce_scatter_perf")) return (Kind){"reduce_scatter", "sum", -1, 1, (n - 1) / n};
  if (!strcmp(program, "broadcast_perf")) return (Kind){"broadcast", "none", 0, 0, 1};
  if (!strcmp(program, "alltoall_perf")) return (Kind){"alltoall", "none", -1, 1, (n - 1) / n};
  fprintf(stderr, "simulated_nccl_tests: called by the name %s, of which there is no collective\n", program);
  exit(2);
}

static void call(const Kind *kind, float *send, float *receive, size_t count) {
  int number = (int)count;
  if (!strcmp(kind->name, "all_reduce")) MPI_Allreduce(send, receive, number, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (!strcmp(kind->name, "all_gather")) MPI_Allgather(send, number, MPI_FLOAT, receive, number, MPI_FLOAT, MPI_COMM_WORLD);
  if (!strcmp(kind->name, "reduce_scatter")) MPI_Reduce_scatter_block(send, receive, number, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (!strcmp(kind->name, "alltoall")) MPI_Alltoall(send, number, MPI_FLOAT, receive, number, MPI_FLOAT, MPI_COMM_WORLD);
  if (!strcmp(kind->name, "broadcast")) {
    if (!rank) memcpy(receive, send, count * sizeof(float));
    MPI_Bcast(receive, number, MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
}

static float expected(const Kind *kind, size_t index, size_t count) {
  if (!strcmp(kind->name, "all_gather")) return value_of((int)(index / count), index % count);
  if (!strcmp(kind->name, "alltoall")) return value_of((int)(index / count), rank * count + index % count);
  if (!strcmp(kind->name, "broadcast")) return value_of(0, index);
  size_t at = !strcmp(kind->name, "reduce_scatter") ? rank * count + index : index;
  float sum = 0;
  for (int owner = 0; owner < ranks; owner++) sum += value_of(owner, at);
  return sum;
}

/* Returns the bus bandwidth. Out of place only: MPI has in-place forms of its own, which are not nccl-tests'. */
static double row(const Kind *kind, size_t size, int iterations, int warmup) {
  int pieces = kind->parts ? ranks : 1;
  size_t count = size / sizeof(float) / pieces, whole = count * pieces;
  int sends_all = !strcmp(kind->name, "reduce_scatter") || !strcmp(kind->name, "alltoall");
  int receives_all = !strcmp(kind->name, "all_gather") || !strcmp(kind->name, "alltoall");
  size_t sent = !kind->parts || !sends_all ? count : whole, received = !kind->parts || !receives_all ? count : whole;
  float *send = malloc(sent * sizeof(float) + 1), *receive = malloc(received * sizeof(float) + 1);
  for (size_t index = 0; index < sent; index++) send[index] = value_of(rank, index);
  double busbw = 0;
  memset(receive, 0xff, received * sizeof(float));
  for (int turn = 0; turn < warmup; turn++) call(kind, send, receive, count);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int turn = 0; turn < iterations; turn++) call(kind, send, receive, count);
  double mine = (MPI_Wtime() - begin) / iterations, sum;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* the mean over ranks, as nccl-tests */
  long wrong = 0, all_wrong;
  for (size_t index = 0; index < received; index++) wrong += receive[index] != expected(kind, index, count);
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (!rank) {
    double seconds = sum / ranks, algbw = whole * sizeof(float) / seconds / 1e9;
    printf("%12zu  %12zu  %8s  %6s  %6d", whole * sizeof(float), count, "float", kind->operation, kind->root);
    printf("  %7.2f  %6.2f  %6.2f  %5ld\n", seconds * 1e6, algbw, algbw * kind->factor, all_wrong);
    fflush(stdout);
    busbw = algbw * kind->factor;
    bad += all_wrong;
  }
  free(send);
  free(receive);
  return busbw;
}

int main(int argc, char **argv) {
  size_t from = 32 << 20, to = 32 << 20;
  int factor = 2, iterations = 20, warmup = 5, option;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  while ((option = getopt(argc, argv, "b:e:f:n:w:g:c:")) != -1) {
    if (option == 'b') from = bytes_of(optarg);
    if (option == 'e') to = bytes_of(optarg);
    if (option == 'f') factor = atoi(optarg);
    if (option == 'n') iterations = atoi(optarg);
    if (option == 'w') warmup = atoi(optarg);
  }
  const char *slash = strrchr(argv[0], '/');
  Kind kind = kind_of(slash ? slash + 1 : argv[0]);
  char name[256] = "", *names = malloc(ranks * sizeof(name));
  gethostname(name, sizeof(name) - 1);
  MPI_Gather(name, sizeof(name), MPI_CHAR, names, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
  int pid = getpid(), *pids = malloc(ranks * sizeof(int));
  MPI_Gather(&pid, 1, MPI_INT, pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!rank) {
    printf("# simulated_nccl_tests: %s by MPI between CPUs, without NCCL\n", kind.name);
    printf("# Collective test starting: %s_perf\n", kind.name);
    printf("# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: %d(factor) warmup iters: %d iters: %d agg iters: 1 "
           "validation: 1 graph: 0\n#\n# Using devices\n", from, to, factor, warmup, iterations);
    for (int one = 0; one < ranks; one++)
      printf("#  Rank %2d Group  0 Pid %6d on %10s device  0 [0x00] CPU\n", one, pids[one], names + one * sizeof(name));
    printf("#\n#                                                              out-of-place                       \n"
           "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       \n");
    fflush(stdout);
  }
  double sum = 0;
  int rows = 0;
  for (size_t size = from; size <= to; size *= factor, rows++) sum += row(&kind, size, iterations, warmup);
  if (!rank)
    printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : %g \n#\n", bad, bad ? "FAILED" : "OK", sum / rows);
  if (!rank) printf("# Collective test concluded: %s_perf\n", kind.name);
  MPI_Finalize();
  return 0;
}
