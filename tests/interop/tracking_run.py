"""What TensorBoard finds in a run of the trainer. usage: tracking_run.py RUN PARAMETER IMAGE_SIDE"""

import sys

from tensorboard.backend.event_processing import event_accumulator


def check(condition, what):
    if not condition:
        sys.exit(f"tracking_run.py: {what}")


def main():
    folder, param, side = sys.argv[1:]
    events = event_accumulator.EventAccumulator(
        folder + "/tensorboard", size_guidance={k: 0 for k in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    )
    events.Reload()
    tags = events.Tags()
    check({"loss", "lr", "val_loss", "accuracy"} <= set(tags["scalars"]), f"scalars: {tags}")
    for text, want in (("config", "recipe: "), ("model", "trainable parameters")):
        value = events.Tensors(text + "/text_summary")[0].tensor_proto.string_val[0].decode()
        check(all(line.startswith("    ") for line in value.splitlines()), f"{text}: {value}")
        check(want in value, f"{text}: {value}")
    shown = events.Histograms("parameters/" + param)
    check([e.step for e in shown] == [4, 8], f"steps of {param}: {[e.step for e in shown]}")
    check(shown[0].histogram_value.num > 1, "an empty histogram")
    pictures = events.Images("inputs/image/0")
    check([p.step for p in pictures] == [4, 8], f"steps of pictures: {[p.step for p in pictures]}")
    check(pictures[0].width == pictures[0].height == int(side), "size of pictures")
    check("_hparams_/session_start_info" in tags["tensors"], f"hparams: {tags}")
    print("TensorBoard shows the run")


if __name__ == "__main__":
    main()
