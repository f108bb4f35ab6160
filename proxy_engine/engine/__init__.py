"""The inference engine: its public class and the parts that it is composed of."""
